package client

import (
	"testing"
	"time"

	"github.com/felixlog/felix/client"
)

// nativeSide is the Go client.
type nativeSide struct {
	f *fleet
	c *client.Client
}

func newNative(t *testing.T, f *fleet, change ...func(*client.Config)) *nativeSide {
	t.Helper()
	cfg := client.Config{CAFile: f.dev("ca.pem"), Token: client.TokenFile(f.dev("token")), RequestTimeout: callLimit}
	for _, n := range f.nodes {
		cfg.Addrs = append(cfg.Addrs, n.Bound("native"))
	}
	for _, c := range change {
		c(&cfg)
	}
	c, err := client.Connect(limited(t), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return &nativeSide{f: f, c: c}
}

func (s *nativeSide) name() string { return "native" }

func stream(name string) client.Stream { return client.Stream{Name: name} }

// publisher makes a publisher that the test closes at its end.
func (s *nativeSide) publisher(t *testing.T, name string, o client.PublisherOptions) *client.Publisher {
	t.Helper()
	p, err := s.c.NewPublisher(stream(name), o)
	must(t, err)
	t.Cleanup(func() { _ = p.Close(limited(t)) })
	return p
}

func (s *nativeSide) publish(t *testing.T, name string, key []byte, values ...string) placed {
	t.Helper()
	p := s.publisher(t, name, client.PublisherOptions{})
	list := make([][]byte, len(values))
	for i, v := range values {
		list[i] = []byte(v)
	}
	ack, err := p.PublishBatch(limited(t), key, list...)
	must(t, err)
	return placed{ack.Shard, ack.Offset}
}

type nativeWriter struct {
	t *testing.T
	p *client.Publisher
}

func (s *nativeSide) writer(t *testing.T, name string) writer {
	t.Helper()
	return &nativeWriter{t, s.publisher(t, name, client.PublisherOptions{})}
}

func (w *nativeWriter) send(key []byte, value string, done func(placed)) {
	w.t.Helper()
	err := w.p.PublishAsync(w.t.Context(), client.Record{Key: key, Value: []byte(value)}, func(ack client.Ack, err error) {
		if err != nil {
			w.t.Errorf("publish %s: %v", value, err)
		} else if done != nil {
			done(placed{ack.Shard, ack.Offset})
		}
	})
	if err != nil {
		w.t.Errorf("publish %s: %v", value, err)
	}
}

func (w *nativeWriter) wait() {
	w.t.Helper()
	must(w.t, w.p.Wait(limited(w.t)))
}

type nativeReader struct {
	t   *testing.T
	sub *client.Subscription
}

func (s *nativeSide) subscribe(t *testing.T, name string, shard uint32, from int64) reader {
	t.Helper()
	o := client.SubscribeOptions{Shards: []uint32{shard}, Timestamps: true, FollowLag: true}
	switch from {
	case fromOldest:
		o.Start = client.Earliest()
	case fromNext:
		o.Start = client.Latest()
	default:
		o.Start = client.FromOffset(from)
	}
	sub, err := s.c.Subscribe(limited(t), stream(name), o)
	must(t, err)
	t.Cleanup(func() { must(t, sub.Close()) })
	return &nativeReader{t, sub}
}

func (r *nativeReader) next() record {
	r.t.Helper()
	e, err := r.sub.Next(limited(r.t))
	must(r.t, err)
	return record{shard: e.Shard, offset: e.Offset, value: string(e.Value), at: e.Time}
}

func (r *nativeReader) close() { must(r.t, r.sub.Close()) }

func (s *nativeSide) bounds(t *testing.T, name string, shard uint32) (start, end int64) {
	t.Helper()
	b, err := s.c.Bounds(limited(t), stream(name), shard)
	must(t, err)
	return b.Start, b.End
}

func (s *nativeSide) offsetAt(t *testing.T, name string, shard uint32, at time.Time) int64 {
	t.Helper()
	offset, err := s.c.OffsetForTime(limited(t), stream(name), shard, at)
	must(t, err)
	return offset
}
