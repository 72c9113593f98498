package raftstore

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// errVoteWithheld answers a candidate while the member withholds its vote. The candidate counts it as no answer.
var errVoteWithheld = errors.New("raftstore: this member withholds its vote until it has caught up")

// transport stands between raft and the network, which it wraps. It gives raft its own inbox, so that it can put a request of its own
// there (electNow) and keep requests out (withholding votes of a member that came back empty, cluster rules 8.4).
type transport struct {
	raft.Transport
	inbox    chan raft.RPC
	withhold atomic.Bool
	stop     chan struct{}
}

func newTransport(inner raft.Transport) *transport {
	return &transport{Transport: inner, inbox: make(chan raft.RPC), stop: make(chan struct{})}
}

// Consumer is raft's inbox.
func (t *transport) Consumer() <-chan raft.RPC { return t.inbox }

// forward moves requests from the network to raft until close. Run it on a goroutine of the store.
func (t *transport) forward() {
	from := t.Transport.Consumer()
	for {
		select {
		case <-t.stop:
			return
		case rpc := <-from:
			if t.withhold.Load() && isVote(rpc) {
				rpc.Respond(nil, errVoteWithheld)
				continue
			}
			select {
			case t.inbox <- rpc:
			case <-t.stop:
				return
			}
		}
	}
}

func isVote(rpc raft.RPC) bool {
	switch rpc.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		return true
	default:
		return false
	}
}

// electNow has raft stand for election at once instead of after a time-out without a leader. It waits until raft took the request.
func (t *transport) electNow(self raft.Server) {
	answer := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{
		Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self.ID), Addr: []byte(self.Address),
		}},
		RespChan: answer,
	}
	select {
	case t.inbox <- rpc:
	case <-t.stop:
	}
}

// RequestPreVote passes on to networks that have it.
func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if p, ok := t.Transport.(raft.WithPreVote); ok {
		return p.RequestPreVote(id, to, args, resp)
	}
	return errors.New("raftstore: the transport has no pre-vote")
}

// close stops forward and ends the network side, if it can be ended.
func (t *transport) close() error {
	close(t.stop)
	if c, ok := t.Transport.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
