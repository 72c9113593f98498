package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Kind says which server a Peer is; expectations that differ by decision are chosen by it.
type Kind string

// The kinds of peer.
const (
	Felix Kind = "felix"
	Kafka Kind = "kafka"
)

// Security names the way into a peer.
type Security int

// Plaintext is without TLS and with an anonymous user; SASL is SASL_PLAINTEXT with mechanism PLAIN and the users of
// Options.Users; TLS is TLS with an anonymous user and the certificate of Options.Certificate. Development is Felix alone, in its
// single-node profile: plaintext Kafka, and below DataDir the files dev/token, dev/api-token, dev/ca.pem and dev/signing-key.pem.
const (
	Plaintext Security = iota
	SASL
	TLS
	Development
)

// ErrRemote is returned for everything that needs the server's process when the peer is one that we did not start.
var ErrRemote = errors.New("peer: not possible with a server that the test did not start")

// Options configure a peer. The zero value is a plaintext, anonymous server on a free port of 127.0.0.1.
type Options struct {
	// Dir is where data and logs go. Default: a temporary directory that Stop removes.
	Dir string
	// Security of Felix's listener. Kafka's plaintext, SASL and TLS listeners are always there (SecureAddr).
	Security Security
	// Users are the PLAIN credentials: tenant (or Kafka user) to password. Default: acme/acme-secret, beta/beta-secret.
	Users map[string]string
	// Certificate serves TLS. Default: a self-signed one for 127.0.0.1, made on the fly.
	Certificate *Certificate
	// FelixEnv are further NAME=value settings of Felix, FelixFlags further arguments of `felix serve`.
	FelixEnv, FelixFlags []string
	// KafkaProperties are further lines of Kafka's server.properties.
	KafkaProperties map[string]string
}

func (o Options) withDefaults() Options {
	if o.Users == nil {
		o.Users = map[string]string{"acme": "acme-secret", "beta": "beta-secret"}
	}
	return o
}

// Peer is one server under test. Its methods must be called from one goroutine at a time, Addr and Kind excepted.
type Peer interface {
	// Kind tells which expectations hold.
	Kind() Kind
	// Start starts the server and returns once it answers on its Kafka listener.
	Start(ctx context.Context) error
	// Addr is the bootstrap address, host:port, of the plaintext listener (of the only listener, if Options.Security says
	// otherwise). Valid after Start, and the same after a Restart.
	Addr() string
	// SecureAddr is the address of a listener with the given security. It starts a second server where one server cannot
	// have both.
	SecureAddr(ctx context.Context, s Security) (string, error)
	// RootPEM is the certificate, PEM, that a TLS client must trust for SecureAddr(TLS).
	RootPEM() []byte
	// Kill9 ends the server with SIGKILL and waits until it is gone.
	Kill9() error
	// Restart starts the server again on the same data and the same addresses; a server that still runs is stopped
	// cleanly first.
	Restart(ctx context.Context) error
	// Stop stops the server cleanly (a second server of SecureAddr too) and removes a temporary directory.
	Stop() error
	// DataDir is the server's data directory; empty for a remote peer.
	DataDir() string
	// Bound is the address of another listener of Felix, by its name in the ready file ("metrics", "native", "api"); empty
	// where there is none.
	Bound(name string) string
	// LogPath is the file with the server's output; empty for a remote peer.
	LogPath() string
	// PID is the server's process id, 0 when it does not run or is remote.
	PID() int
}

// FromEnv makes the peer that the PEER variable names; see the package comment. It starts nothing.
func FromEnv(o Options) (Peer, error) {
	switch v := os.Getenv("PEER"); {
	case v == "" || v == string(Felix):
		return NewFelix(o)
	case v == string(Kafka):
		return NewKafka(o)
	case strings.Contains(v, ":"):
		kind := Felix
		if os.Getenv("PEER_KIND") == string(Kafka) {
			kind = Kafka
		}
		return &remote{addr: v, kind: kind}, nil
	default:
		return nil, fmt.Errorf("PEER=%q: want felix, kafka or host:port", v)
	}
}

// ModuleDir is the directory of the compat module, found from this source file; FELIX_COMPAT_DIR overrides it.
func ModuleDir() string {
	if d := os.Getenv("FELIX_COMPAT_DIR"); d != "" {
		return d
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// remote is a server that someone else runs.
type remote struct {
	addr string
	kind Kind
}

func (r *remote) Kind() Kind                  { return r.kind }
func (r *remote) Start(context.Context) error { return nil }
func (r *remote) Addr() string                { return r.addr }
func (r *remote) SecureAddr(_ context.Context, s Security) (string, error) {
	if s == Plaintext {
		return r.addr, nil
	}
	return "", ErrRemote
}
func (r *remote) RootPEM() []byte               { return nil }
func (r *remote) Kill9() error                  { return ErrRemote }
func (r *remote) Restart(context.Context) error { return ErrRemote }
func (r *remote) Stop() error                   { return nil }
func (r *remote) DataDir() string               { return "" }
func (r *remote) Bound(string) string           { return "" }
func (r *remote) LogPath() string               { return "" }
func (r *remote) PID() int                      { return 0 }
