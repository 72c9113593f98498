package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
)

// protocol is the ALPN id of the native protocol.
const protocol = "felix/1"

// Config says where a Client connects to and as whom. The zero value of a field is its default; Addrs and Token must be set.
type Config struct {
	// Addrs are servers, host:port each. One that answers is enough; the others of a cluster are learnt from it.
	Addrs []string
	// Tenant is the tenant of the token. Default: "default".
	Tenant string
	// Token is asked for a token whenever a stream is opened, so a token may be renewed while the client runs.
	Token TokenSource

	// CAFile is a file of PEM certificates, and RootCAs a pool, of the authorities that servers are checked against. If neither is set
	// the system's are used. The single-node profile keeps its own in <data-dir>/dev/ca.pem.
	CAFile  string
	RootCAs *x509.CertPool
	// ServerName is the DNS name that every server's certificate must have. Default: "localhost".
	ServerName string
	// Certificates are presented to servers that ask for one.
	Certificates []tls.Certificate

	// Connections is how many connections to one server carry publishes and requests; shards are spread over them. Default: 1.
	Connections int
	// SubscriptionsPerConnection is how many shards are read over one connection before another one is opened. Default: 64, at most 512.
	SubscriptionsPerConnection int
	// StreamWindowBytes is how much of one shard's events may be on the way, unread by the program. The window of a connection is that of
	// all its streams together, so a shard whose events nobody reads never holds up another. Default: 1 MiB.
	StreamWindowBytes int
	// MaxFrameBytes is the largest frame that is taken from a server. Default and upper bound: 16 MiB, the servers' own default.
	MaxFrameBytes int

	// IdleTimeout is after what silence a connection counts as lost. Default: 6 s, as the server's own.
	IdleTimeout time.Duration
	// DialTimeout bounds one attempt to connect, one to authenticate, and each answer about the cluster and where streams lie. A server that
	// takes longer is left for the next one. Default: 5 s.
	DialTimeout time.Duration
	// RequestTimeout bounds a call that reads or asks something, retries included, when its context does not end it earlier. Default: 30 s.
	RequestTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait between attempts: a random time below a ceiling that begins at BackoffMin and doubles up to
	// BackoffMax. Defaults: 50 ms, 2 s.
	BackoffMin, BackoffMax time.Duration

	// OnConnection, if it is set, hears how the way to each server is, which the client does not tell otherwise while it tries again: err is
	// nil when a connection to addr was made, and else why one could not be made or why the newest one was lost. Connections that the client
	// itself closes or gives up are not told of. It may be called by several goroutines at once, must return soon, and must not call the client.
	OnConnection func(addr string, err error)
}

func (c Config) withDefaults() Config {
	setDefault(&c.Tenant, "default")
	setDefault(&c.ServerName, "localhost")
	setDefault(&c.Connections, 1)
	setDefault(&c.SubscriptionsPerConnection, 64)
	setDefault(&c.StreamWindowBytes, 1<<20)
	setDefault(&c.MaxFrameBytes, wire.DefaultMaxFrameBytes)
	setDefault(&c.IdleTimeout, 6*time.Second)
	setDefault(&c.DialTimeout, 5*time.Second)
	setDefault(&c.RequestTimeout, 30*time.Second)
	setDefault(&c.BackoffMin, 50*time.Millisecond)
	setDefault(&c.BackoffMax, 2*time.Second)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxSubscriptions bounds the streams that servers may open on one connection.
const maxSubscriptions = 512

func (c *Config) validate() error {
	switch {
	case len(c.Addrs) == 0:
		return errors.New("felix: Config.Addrs is empty")
	case c.Token == nil:
		return errors.New("felix: Config.Token is not set")
	case c.CAFile != "" && c.RootCAs != nil:
		return errors.New("felix: Config.CAFile and Config.RootCAs exclude each other")
	case c.Connections < 1 || c.StreamWindowBytes < 1<<12 || c.MaxFrameBytes < 1<<12 || c.MaxFrameBytes > wire.DefaultMaxFrameBytes:
		return errors.New("felix: Config: Connections, StreamWindowBytes or MaxFrameBytes out of bounds")
	case c.SubscriptionsPerConnection < 1 || c.SubscriptionsPerConnection > maxSubscriptions:
		return fmt.Errorf("felix: Config.SubscriptionsPerConnection must be 1 to %d", maxSubscriptions)
	case c.IdleTimeout < 0 || c.DialTimeout < 0 || c.RequestTimeout < 0 || c.BackoffMin < 0 || c.BackoffMax < c.BackoffMin:
		return errors.New("felix: Config: a duration is negative, or BackoffMax is below BackoffMin")
	}
	return nil
}

// tls is what connections are secured with.
func (c *Config) tls() (*tls.Config, error) {
	roots := c.RootCAs
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("felix: authorities: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("felix: authorities: no certificate in %s", c.CAFile)
		}
	}
	return &tls.Config{
		RootCAs: roots, ServerName: c.ServerName, Certificates: c.Certificates, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13,
	}, nil
}

// quic is the transport's configuration. The window of a connection is what all its event streams may have unread and some room for
// answers, from the start: a window that had to grow first could be used up by streams that nobody reads.
func (c *Config) quic() *quic.Config {
	window := uint64(c.StreamWindowBytes)
	all := window*uint64(c.SubscriptionsPerConnection) + answerRoom
	return &quic.Config{
		HandshakeIdleTimeout: c.DialTimeout, MaxIdleTimeout: c.IdleTimeout, KeepAlivePeriod: c.IdleTimeout / 3,
		InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window,
		InitialConnectionReceiveWindow: all, MaxConnectionReceiveWindow: all,
		MaxIncomingStreams: -1, MaxIncomingUniStreams: int64(2 * c.SubscriptionsPerConnection),
	}
}

// answerRoom is the part of a connection's window that is left for answers.
const answerRoom = 16 << 20

// TokenSource gives tokens. Token is called whenever a stream is opened, from any goroutine, and should answer from memory or from a file
// most of the time.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// StaticToken is a token that never changes.
type StaticToken string

// Token is the token.
func (t StaticToken) Token(context.Context) (string, error) { return string(t), nil }

// TokenFile is the path of a file that holds a token. It is read anew for each stream, as whoever writes it renews it.
type TokenFile string

// Token reads the file; white space around the token is cut off.
func (t TokenFile) Token(context.Context) (string, error) {
	text, err := os.ReadFile(string(t))
	if err != nil {
		return "", fmt.Errorf("felix: token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// TokenFunc is a function that gives tokens.
type TokenFunc func(ctx context.Context) (string, error)

// Token calls the function.
func (f TokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }
