package kafkaproto

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/buf"
)

// Options say what a Kafka listener is made of. Zero values mean the defaults named at the fields.
type Options struct {
	Broker *broker.Broker
	// Pool lends the buffers of requests; the log keeps those of recent produces. Required.
	Pool       *buf.Pool
	Logger     *zap.Logger
	Registerer prometheus.Registerer // nil: no metrics
	// Groups coordinates groups. Nil: their APIs are not served, and FindCoordinator says so.
	Groups Groups

	// Verifier checks SASL credentials; nil offers no SASL.
	Verifier Verifier
	// Anonymous is whom connections without SASL speak for; nil makes every connection authenticate first.
	Anonymous *Caller
	// TLSConfig makes every connection TLS; nil means plaintext.
	TLSConfig *tls.Config
	// BindCertificates has the certificate that a client shows be issued to the principal of its credential. TLSConfig must ask for one.
	BindCertificates bool

	// DefaultNamespace holds the topics whose names have no dot. Default "default".
	DefaultNamespace string
	// AutoCreate makes a missing topic that a client names in Metadata, when the request and the caller's rights allow it
	// (Kafka: auto.create.topics.enable).
	AutoCreate bool

	// MaxConnections is the number of connections served at a time; what comes beyond it is closed on arrival. Default
	// 10,000 (Kafka: max.connections).
	MaxConnections int
	// MaxConnectionsPerAddress is the same for one remote address, loopback excepted. Default 1,024; negative: no limit.
	MaxConnectionsPerAddress int
	// AuthTimeout is how long a connection may take to authenticate, TLS handshake included. Default 10 s.
	AuthTimeout time.Duration
	// IdleTimeout closes a connection on which nothing is owed and nothing arrives. Default 10 min (Kafka:
	// connections.max.idle.ms).
	IdleTimeout time.Duration
	writeTick   time.Duration // see the constant
	// MaxRequestBytes bounds a request of an authenticated connection. Default 100 MiB (Kafka: socket.request.max.bytes).
	MaxRequestBytes int
	// MaxUnauthenticatedBytes bounds a request before authentication. Default 64 KiB.
	MaxUnauthenticatedBytes int
	// MemoryBudgetBytes bounds the memory of requests being read or handled and of answers being written, over all
	// connections. Half of it is for requests, half for answers. Connections wait their turn for it. Default 256 MiB.
	MemoryBudgetBytes int64

	// FetchMaxBytes bounds the records of one fetch answer. Default 55 MiB (Kafka: fetch.max.bytes).
	FetchMaxBytes int
	// FetchMaxWait bounds a fetch's max_wait_ms. Default 30 s.
	FetchMaxWait time.Duration
	// MaxFetchSessions is the number of incremental fetch sessions remembered. Default 1,000 (Kafka:
	// max.incremental.fetch.session.cache.slots).
	MaxFetchSessions int
	// CommitTimeout bounds a produce request's timeout_ms for acks=all. Default 5 s (FELIX_PUBLISH_QUORUM_TIMEOUT_MS).
	CommitTimeout time.Duration
	// SyncOnCommit: the sync mode is on_commit, so that acks=1 too is answered only when the record is synced.
	SyncOnCommit bool

	Now func() time.Time // nil: time.Now
}

func (o Options) withDefaults() Options {
	setDefault(&o.DefaultNamespace, "default")
	setDefault(&o.MaxConnections, 10_000)
	setDefault(&o.MaxConnectionsPerAddress, 1_024)
	setDefault(&o.AuthTimeout, 10*time.Second)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.writeTick, writeTick)
	setDefault(&o.MaxRequestBytes, 100<<20)
	setDefault(&o.MaxUnauthenticatedBytes, 64<<10)
	setDefault(&o.MemoryBudgetBytes, 256<<20)
	setDefault(&o.FetchMaxBytes, 55<<20)
	setDefault(&o.FetchMaxWait, 30*time.Second)
	setDefault(&o.MaxFetchSessions, 1_000)
	setDefault(&o.CommitTimeout, 5*time.Second)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	switch {
	case o.Pool == nil:
		return errors.New("kafkaproto: no buffer pool")
	case o.Verifier == nil && o.Anonymous == nil:
		return errors.New("kafkaproto: neither a verifier nor an anonymous caller: nobody could connect")
	case o.BindCertificates && (o.TLSConfig == nil || o.TLSConfig.ClientAuth != tls.RequireAndVerifyClientCert):
		return errors.New("kafkaproto: credentials are bound to client certificates that nobody is asked for")
	case o.MaxConnections < 0, o.AuthTimeout < 0, o.IdleTimeout < 0, o.FetchMaxWait < 0, o.CommitTimeout < 0,
		o.FetchMaxBytes < 0, o.MaxFetchSessions < 0:
		return errors.New("kafkaproto: negative option")
	case o.MaxRequestBytes < minRequestBytes || o.MaxUnauthenticatedBytes < minRequestBytes:
		return errors.New("kafkaproto: request limit below the size of a request header")
	case o.MaxUnauthenticatedBytes > o.MaxRequestBytes:
		return errors.New("kafkaproto: request limit before authentication exceeds the limit after it")
	case o.MemoryBudgetBytes/2 < int64(o.MaxUnauthenticatedBytes):
		return errors.New("kafkaproto: memory budget below the smallest request limit")
	}
	return nil
}
