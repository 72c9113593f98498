package kafkaproto

import (
	"time"

	"github.com/felixlog/felix/internal/ids"
)

const (
	// maxFetchParts bounds the partitions of one request.
	maxFetchParts = 100_000
	// fetchPartBytes is what one costs in memory while the fetch lasts, for the budget.
	fetchPartBytes = 320
	// keptFetchParts is how many a pooled fetch keeps room for.
	keptFetchParts = 256
)

// fetchRequest is what a request says beside its partitions.
type fetchRequest struct {
	replica       int32
	maxWait       time.Duration
	minBytes      int
	maxBytes      int
	readCommitted bool
	session       int32
	epoch         int32
	forgotten     []partKey
}

// decode reads a request, versions 4 to 18; its partitions become f.parts. It reports false for bytes that are not a request.
// What it keeps of topic names is copied into f.names.
func (f *fetch) decode(body []byte) (req fetchRequest, ok bool) {
	r := wireReader{b: body}
	flexible := f.api.isFlexible(f.version)
	req.replica, req.epoch = -1, finalSessionEpoch
	if f.version <= 14 {
		req.replica = r.int32()
	}
	req.maxWait = time.Duration(r.int32()) * time.Millisecond
	req.minBytes = int(r.int32())
	req.maxBytes = int(r.int32())
	req.readCommitted = r.int8() == 1
	if f.version >= 7 {
		req.session, req.epoch = r.int32(), r.int32()
	}
	for range r.count(flexible, 2) {
		f.decodeTopic(&r, flexible)
		if r.bad {
			return req, false
		}
	}
	if f.version >= 7 {
		for range r.count(flexible, 2) {
			req.forgotten = f.decodeForgotten(&r, flexible, req.forgotten)
			if r.bad {
				return req, false
			}
		}
	}
	if f.version >= 11 {
		r.str(flexible) // rack
	}
	if flexible {
		r.tags(func(tag uint32, content []byte) {
			if tag == 1 && f.version >= 15 { // ReplicaState
				state := wireReader{b: content}
				req.replica = state.int32()
				r.bad = r.bad || state.bad
			}
		})
	}
	return req, !r.bad
}

func (f *fetch) decodeTopic(r *wireReader, flexible bool) {
	name, id := f.decodeTopicName(r, flexible)
	n := max(r.count(flexible, 16), 0)
	if len(f.parts)+n > maxFetchParts || !f.reserve(n) {
		r.fail()
		return
	}
	for range n {
		p := f.addPart()
		p.name, p.id = name, id
		p.index = r.int32()
		p.epoch, p.lastEpoch = ids.NoEpoch, ids.NoEpoch
		if f.version >= 9 {
			p.epoch = ids.LeaderEpoch(r.int32())
		}
		p.offset = ids.Offset(r.int64())
		if f.version >= 12 {
			p.lastEpoch = ids.LeaderEpoch(r.int32())
		}
		if f.version >= 5 {
			r.int64() // a follower's log start offset
		}
		p.maxBytes = int(r.int32())
		if flexible {
			r.skipTags()
		}
		if r.bad {
			return
		}
	}
	if flexible {
		r.skipTags()
	}
}

// decodeTopicName reads a topic's name, up to version 12, or id.
func (f *fetch) decodeTopicName(r *wireReader, flexible bool) (name string, id ids.TopicID) {
	if f.version >= 13 {
		return "", r.uuid()
	}
	b, _ := r.str(flexible)
	from := len(f.names)
	f.names = append(f.names, b...)
	return viewString(f.names[from:]), id
}

func (f *fetch) decodeForgotten(r *wireReader, flexible bool, out []partKey) []partKey {
	name, id := f.decodeTopicName(r, flexible)
	n := max(r.count(flexible, 4), 0)
	if len(out)+n > maxFetchParts {
		r.fail()
		return nil
	}
	for range n {
		out = append(out, partKey{name: name, id: id, index: r.int32()})
	}
	if flexible {
		r.skipTags()
	}
	return out
}

// reserve takes memory for n more partitions from the budget, waiting for it.
func (f *fetch) reserve(n int) bool {
	if len(f.parts)+n <= keptFetchParts {
		return true // the pool has room for these
	}
	return f.srv.requests.take(f.srv.life, &f.lease, int64(n)*fetchPartBytes) == nil
}

// addPart extends parts by one whose waiter knows its place.
func (f *fetch) addPart() *fetchPart {
	i := len(f.parts)
	if i < cap(f.parts) {
		f.parts = f.parts[:i+1]
	} else {
		f.parts = append(f.parts, fetchPart{})
	}
	p := &f.parts[i]
	if p.waiter.Notify == nil {
		p.waiter.Notify = func(err error) { f.woken(i, err) }
	}
	return p
}
