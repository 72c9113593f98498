package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// felixPeer runs `felix serve`.
type felixPeer struct {
	o       Options
	bin     string
	dir     string // holds data/, ready.json, felix.log, cert.pem, key.pem
	ownDir  bool   // dir is temporary
	proc    *process
	bound   map[string]string // addresses of the ready file, kept for restarts
	secure  map[Security]*felixPeer
	rootPEM []byte
}

// felixListeners are the listener names of the ready file and their flags.
var felixListeners = map[string]string{
	"kafka": "--kafka-listen", "native": "--native-listen", "api": "--api-listen", "metrics": "--metrics-listen",
	"peer": "--peer-listen",
}

// NewFelix makes a peer that runs the Felix binary. It starts nothing.
func NewFelix(o Options) (Peer, error) { return newFelix(o) }

func newFelix(o Options) (*felixPeer, error) {
	o = o.withDefaults()
	bin := os.Getenv("FELIX_BIN")
	if bin == "" {
		bin = filepath.Join(ModuleDir(), "..", "bin", "felix")
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("the Felix binary (make build, or FELIX_BIN): %w", err)
	}
	f := &felixPeer{o: o, bin: bin, dir: o.Dir, secure: map[Security]*felixPeer{}}
	if f.dir == "" {
		dir, err := os.MkdirTemp("", "felix-peer-")
		if err != nil {
			return nil, err
		}
		f.dir, f.ownDir = dir, true
	}
	return f, os.MkdirAll(f.DataDir(), 0o700)
}

func (f *felixPeer) Kind() Kind      { return Felix }
func (f *felixPeer) Addr() string    { return f.bound["kafka"] }
func (f *felixPeer) DataDir() string { return filepath.Join(f.dir, "data") }
func (f *felixPeer) LogPath() string { return filepath.Join(f.dir, "felix.log") }

func (f *felixPeer) PID() int {
	if f.proc == nil {
		return 0
	}
	return f.proc.cmd.Process.Pid
}

func (f *felixPeer) Bound(name string) string { return f.bound[name] }

func (f *felixPeer) Start(ctx context.Context) error {
	ready := filepath.Join(f.dir, "ready.json")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	argv := []string{f.bin, "serve", "--data-dir", f.DataDir(), "--ready-file", ready}
	for name, flag := range felixListeners {
		if name == "peer" && f.bound[name] == "" {
			continue // a single node needs none; a cluster's tests name it themselves
		}
		addr := f.bound[name]
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		argv = append(argv, flag, addr)
	}
	env, err := f.env()
	if err != nil {
		return err
	}
	f.proc, err = start(f.LogPath(), env, append(argv, f.o.FelixFlags...)...)
	if err != nil {
		return err
	}
	bound := map[string]string{}
	err = f.proc.await(ctx, func() bool {
		b, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(b, &bound) == nil && bound["kafka"] != ""
	})
	if err != nil {
		return errors.Join(err, f.Kill9())
	}
	f.bound = bound
	return nil
}

// env is Felix's environment; retention and compaction look at the logs every second, so that they can be tested, and a group's
// first generation does not wait for further members, as in the Kafka peer. Variables of the caller's own environment that start
// with FELIX_ are shadowed only where they are named here.
func (f *felixPeer) env() ([]string, error) {
	env := []string{
		"FELIX_KAFKA_DEFAULT_NAMESPACE=default", "FELIX_DURABLE_RETENTION_INTERVAL_SECONDS=1",
		"FELIX_KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0",
	}
	switch f.o.Security {
	case Development: // anything about access would end the profile
	case Plaintext:
		env = append(env, "FELIX_KAFKA_TLS=false", "FELIX_KAFKA_ANONYMOUS_TENANT=default")
	case SASL:
		users := make([]string, 0, len(f.o.Users))
		for user, password := range f.o.Users {
			users = append(users, user+":"+password)
		}
		slices.Sort(users)
		env = append(env, "FELIX_KAFKA_TLS=false", "FELIX_KAFKA_SASL_PLAIN_USERS="+strings.Join(users, ","))
	case TLS:
		cert, key := filepath.Join(f.dir, "cert.pem"), filepath.Join(f.dir, "key.pem")
		c := f.o.Certificate
		if c == nil {
			made, err := NewCertificate()
			if err != nil {
				return nil, err
			}
			c = made
			f.o.Certificate = c
		}
		f.rootPEM = c.CertPEM
		err := errors.Join(os.WriteFile(cert, c.CertPEM, 0o600), os.WriteFile(key, c.KeyPEM, 0o600))
		if err != nil {
			return nil, err
		}
		env = append(env, "FELIX_KAFKA_TLS=true", "FELIX_TLS_CERT="+cert, "FELIX_TLS_KEY="+key,
			"FELIX_KAFKA_ANONYMOUS_TENANT=default")
	}
	return append(env, f.o.FelixEnv...), nil
}

func (f *felixPeer) SecureAddr(ctx context.Context, s Security) (string, error) {
	if s == f.o.Security {
		return f.Addr(), nil
	}
	if p := f.secure[s]; p != nil {
		return p.Addr(), nil
	}
	o := f.o
	o.Dir, o.Security = "", s
	p, err := newFelix(o)
	if err != nil {
		return "", err
	}
	if err := p.Start(ctx); err != nil {
		return "", err
	}
	f.secure[s] = p
	return p.Addr(), nil
}

func (f *felixPeer) RootPEM() []byte {
	if p := f.secure[TLS]; p != nil {
		return p.rootPEM
	}
	return f.rootPEM
}

func (f *felixPeer) Kill9() error {
	if f.proc == nil {
		return nil
	}
	err := f.proc.end(syscall.SIGKILL)
	f.proc = nil
	return err
}

func (f *felixPeer) Restart(ctx context.Context) error {
	if err := f.halt(); err != nil {
		return err
	}
	return f.Start(ctx)
}

// halt stops the server itself, and keeps data and addresses. A server that died by itself is an error.
func (f *felixPeer) halt() error {
	if f.proc == nil {
		return nil
	}
	p := f.proc
	f.proc = nil
	select {
	case <-p.done:
		return fmt.Errorf("felix ended by itself: %v\n%s", p.cmd.ProcessState, tail(p.log))
	default:
	}
	return p.end(syscall.SIGTERM)
}

func (f *felixPeer) Stop() error {
	err := f.halt()
	for s, p := range f.secure {
		err = errors.Join(err, p.Stop())
		delete(f.secure, s)
	}
	if f.ownDir && os.Getenv("PEER_LOG") == "" {
		err = errors.Join(err, os.RemoveAll(f.dir))
	}
	return err
}
