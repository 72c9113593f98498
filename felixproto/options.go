package felixproto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/buf"
)

// Verifier tells who a token belongs to. *auth.Verifier is the one in production.
type Verifier interface {
	// Verify returns the identity of a token that is valid for tenant now. Every failure is of kind AuthenticationFailed and says
	// nothing more to a client.
	Verify(ctx context.Context, tenant, token string) (*auth.Identity, error)
}

// Peer is a broker as clients see it.
type Peer struct {
	NodeID string
	// Addr is where clients reach it, as IP:port: clients drop names.
	Addr string
}

// Options say what a Server is made of. Broker, Verifier, Pool and TLS are required.
type Options struct {
	Broker   *broker.Broker
	Verifier Verifier
	// Caller is what an identity may do, in the broker's terms.
	Caller func(*auth.Identity) *broker.Caller
	Pool   *buf.Pool
	// TLS has the certificate, and ClientCAs with ClientAuth where clients must present one. Protocol and versions are set here.
	TLS *tls.Config
	// RequireALPN refuses clients that offer no protocol; without it they are taken as speaking ours.
	RequireALPN bool
	// BindCertificates asks that a client's certificate belongs to the principal of its token.
	BindCertificates bool

	// ResetKey, kept over restarts, has clients of a server that was killed told at once that their connections are gone, instead of
	// after their idle time-out (RFC 9000, 10.3). A secret: whoever has it can end connections. Zero: they find out by themselves.
	ResetKey [32]byte

	NodeID string
	// Advertise is the address that this node tells clients, IP:port; "" tells none.
	Advertise string

	MaxConnections           int // default 8,192
	MaxConnectionsPerAddress int // default 512; negative: no limit
	// AuthTimeout closes a connection of which no stream has authenticated. Default 10 s; negative: never.
	AuthTimeout      time.Duration
	PreAuthFrame     int // largest payload before authentication; default 64 KiB, at most MaxFrame
	PreAuthStreams   int // unauthenticated streams of a connection read at once; default 16
	MaxFrame         int // largest payload; default 16 MiB
	MaxStreams       int // streams of each kind that a client may have open; default 1,024
	IdleTimeout      time.Duration
	KeepAlive        time.Duration
	StreamWindow     int   // initial; default 256 KiB
	ConnectionWindow int   // initial; default 1 MiB
	MaxStreamWindow  int   // default 16 MiB
	MaxConnWindow    int   // default 16 MiB
	MemoryBudget     int64 // bounds what windows, frames being read and frames being delivered hold; default 256 MiB

	// Window is how many acknowledged publishes a stream may have unanswered if the client asks for answers in order. Default 256;
	// negative: such an order is not offered.
	Window          int
	AckOnCommit     bool          // durable streams answer after the write; false: when queued
	IngressWait     bool          // publishes without an answer wait for room instead of being dropped
	ConnBytes       int           // unanswered publish bytes of one identity on a connection; default 16 MiB
	ConnTotalBytes  int           // of all identities on a connection; default 4 times that
	AnswerTimeout   time.Duration // after which an answer that depends on a commit is given up; default 5.5 s
	RoomWait        time.Duration // that a publish may wait for room; default 2 s
	QueueCapacity   int           // published batches that a subscription may be behind; default 512
	QueueLargest    int           // the most that a client may ask for; default 4,096
	QueueBytes      int           // payload bytes of the same; default 128 MiB
	WriteBytes      int           // what is written to a subscriber at once; default 64 KiB
	EventsPerFrame  int           // default 64
	BytesPerFrame   int           // default 256 KiB
	MaxRecord       int           // largest record; default 12,000,000
	MaxDecodedBytes int           // of a compressed batch; default 16 MiB
	RecordsPerRead  int           // of one bounded read; default 10,000
	Subscriptions   int           // of one identity on a connection, watches included; default 4,096
	SubscriptionsIn int           // of all identities on a connection; default 4 times that

	Logger     *zap.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// readBytes bounds the payload of one bounded read, but for its first record (streams, 14.1).
const readBytes = 4 << 20

func (o Options) withDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.MaxConnections, 8192)
	def(&o.MaxConnectionsPerAddress, 512)
	def(&o.MaxFrame, wire.DefaultMaxFrameBytes)
	def(&o.PreAuthFrame, wire.PreAuthMaxFrameBytes)
	o.PreAuthFrame = min(o.PreAuthFrame, o.MaxFrame)
	def(&o.PreAuthStreams, 16)
	def(&o.MaxStreams, 1024)
	def(&o.StreamWindow, 256<<10)
	def(&o.ConnectionWindow, 1<<20)
	def(&o.MaxStreamWindow, 16<<20)
	def(&o.MaxConnWindow, 16<<20)
	def(&o.Window, 256)
	def(&o.ConnBytes, 16<<20)
	def(&o.ConnTotalBytes, 4*o.ConnBytes)
	def(&o.QueueCapacity, 512)
	def(&o.QueueLargest, 4096)
	def(&o.QueueBytes, 128<<20)
	def(&o.WriteBytes, 64<<10)
	def(&o.EventsPerFrame, 64)
	def(&o.BytesPerFrame, 256<<10)
	def(&o.MaxRecord, 12_000_000)
	def(&o.MaxDecodedBytes, 16<<20)
	def(&o.RecordsPerRead, 10_000)
	def(&o.Subscriptions, 4096)
	def(&o.SubscriptionsIn, 4*o.Subscriptions)
	if o.AuthTimeout == 0 {
		o.AuthTimeout = 10 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 6 * time.Second
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 2 * time.Second
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = 5500 * time.Millisecond
	}
	if o.RoomWait == 0 {
		o.RoomWait = 2 * time.Second
	}
	if o.MemoryBudget == 0 {
		o.MemoryBudget = 256 << 20
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.Broker == nil, o.Verifier == nil, o.Caller == nil, o.Pool == nil, o.TLS == nil:
		return errors.New("felixproto: broker, verifier, caller, pool and TLS are required")
	case o.BytesPerFrame > o.MaxFrame:
		return fmt.Errorf("felixproto: event frames of %d bytes are above the largest frame, %d", o.BytesPerFrame, o.MaxFrame)
	case o.ConnTotalBytes < o.ConnBytes:
		return fmt.Errorf("felixproto: a connection's publish bytes (%d) are below those of one identity on it (%d)", o.ConnTotalBytes, o.ConnBytes)
	case o.SubscriptionsIn < o.Subscriptions:
		return fmt.Errorf("felixproto: a connection's subscriptions (%d) are below those of one identity on it (%d)", o.SubscriptionsIn, o.Subscriptions)
	case o.QueueCapacity < 1 || o.QueueLargest < 1 || o.WriteBytes < 1 || o.EventsPerFrame < 1 || o.MaxRecord < 1:
		return errors.New("felixproto: a limit is below 1")
	}
	return nil
}
