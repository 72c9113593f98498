package ctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/client"
)

const (
	// nativePort is the port of an address that names none.
	nativePort = "5000"
	// unknownAfter is how long a stream may be unknown before it counts as missing: the client waits longer for one that was just made.
	unknownAfter = 1500 * time.Millisecond
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 5 * time.Second
)

// native is one command's connection to the native listener.
type native struct {
	*client.Client
	app    *app
	watch  *watcher
	token  string
	tenant string
}

// nativeCommands are the commands of the native protocol.
func (a *app) nativeCommands() []*cobra.Command {
	return of(nativeServer, a.namespaced(a.pubCommand(), a.subCommand(), a.topologyCommand(), a.inspectCommand(), a.benchCommand())...)
}

// dialNative connects and authenticates. The caller closes it.
func (a *app) dialNative(ctx context.Context) (*native, error) {
	seeds, err := parseSeeds(a.brokers, nativePort)
	if err != nil {
		return nil, err
	}
	if a.token == "" && a.tokenFile == "" {
		return nil, usageErrorf("no token for brokers: give --token-file, or a context that has one (a development node writes one: " +
			"--config data/dev/felixctl.toml)")
	}
	n := &native{app: a, watch: newWatcher(a)}
	if n.token, err = secret(a.token, a.tokenFile, "token-file"); err != nil {
		return nil, err
	}
	if n.tenant, err = a.tenantOf(n.token); err != nil {
		return nil, err
	}
	var files tls.Config
	if err := tlsFiles(&files, a.caFile, "ca-file", a.clientCertFile, a.clientKeyFile); err != nil {
		return nil, err
	}
	conf := client.Config{
		Addrs: seeds, Tenant: n.tenant, Token: client.StaticToken(n.token), RootCAs: files.RootCAs, Certificates: files.Certificates,
		ServerName: firstOf(a.serverName, nameOf(seeds[0])), DialTimeout: min(dialTimeout, a.timeout), RequestTimeout: a.timeout,
		OnConnection: n.watch.heard,
	}
	if a.token == "" {
		conf.Token = client.TokenFile(a.tokenFile) // it may be renewed while the command runs
	}
	n.Client, err = client.Connect(ctx, conf)
	if err != nil {
		return nil, n.failed(ctx, "connect to "+a.brokers, err)
	}
	return n, nil
}

// nameOf is the name that the certificate at an address must have: localhost for an IP address, which certificates of brokers do not hold.
func nameOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || net.ParseIP(host) != nil {
		return "localhost"
	}
	return host
}

// close ends the connection; nothing is left to be told.
func (n *native) close() {
	n.watch.talk(false)
	_ = n.Close()
}

// stream names a stream in the namespace of the settings.
func (a *app) stream(name string) client.Stream {
	return client.Stream{Namespace: a.namespace, Name: name}
}

// shardsOf is how many shards a stream has; one that is not there is missed soon.
func (n *native) shardsOf(ctx context.Context, s client.Stream) (int, error) {
	soon, cancel := context.WithTimeout(ctx, unknownAfter)
	defer cancel()
	count, err := n.Shards(soon, s)
	if err != nil && !errors.Is(err, client.ErrNotFound) && soon.Err() != nil && ctx.Err() == nil {
		count, err = n.Shards(ctx, s) // slow, and not unknown
	}
	return count, n.failed(ctx, "stream "+s.String(), err)
}

// failed turns a failure of the client into a sentence with a status, and says what to do.
func (n *native) failed(ctx context.Context, what string, err error) error {
	var known *statusError
	var refused *client.Error
	var lost *client.ConnectionError
	var cursor *client.CursorError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ctx.Err()
	case errors.As(err, &refused):
		return n.refused(what, refused)
	case errors.As(err, &cursor):
		nearest := "earliest"
		if cursor.Reason == client.InFuture {
			nearest = "latest"
		}
		return refusedErrorf("%s: shard %d: offset %d is not kept, the nearest is %d: read from there, or with --from %s",
			what, cursor.Shard, cursor.Requested, cursor.Available, nearest)
	case errors.As(err, &lost):
		return n.lost(lost)
	case errors.Is(err, client.ErrTooLarge):
		return refusedErrorf("%s: %w: a frame takes 16 MiB, with the key and the names, and a key 65535 bytes", what, err)
	case errors.Is(err, context.DeadlineExceeded):
		return unreachableErrorf("%s: no answer from the server at %s within %s: it hangs or is overloaded; --timeout waits longer",
			what, n.app.brokers, n.app.timeout)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// refused says why the server refused, and what to do about it.
func (n *native) refused(what string, no *client.Error) error {
	status, advice := exitRefused, ""
	switch no.Code {
	case client.CodeNotFound:
		status, advice = exitMissing, "see felixctl stream ls, or make it with felixctl stream create"
	case client.CodeUnauthenticated:
		advice = tokenAdvice(n.token, auth.AudienceBroker, n.tenant)
	case client.CodeForbidden:
		advice = "felixctl token show says what the token allows"
	case client.CodeInternal:
		status = exitFailure
	default:
		if no.Class == client.ClassRetry || no.Class == client.ClassRetryAfter {
			advice = "try again later"
		}
	}
	text := what + ": " + no.Message
	if advice != "" {
		text += ": " + advice
	}
	if no.Code != "" {
		text += " (" + string(no.Code) + ")"
	}
	return &statusError{status: status, err: &sentence{text: text, cause: no}}
}

// lost says why the server cannot be reached.
func (n *native) lost(err *client.ConnectionError) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return unreachableErrorf("the certificate of %s is signed by nobody known here: name its authority with --ca-file (a development node "+
			"keeps it in data/dev/ca.pem)", err.Addr)
	case errors.As(err, &name):
		return unreachableErrorf("the certificate of %s is for another name (%w): name the one it is for with --server-name", err.Addr, name)
	}
	why := err.Err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		why = "no answer" // silence is all that QUIC hears where nobody listens
	}
	hint := firstOf(n.app.misdirected("native", nativePort, "Kafka", kafkaPort), "start one with `felix serve`, or name another with --brokers")
	return unreachableErrorf("no native listener answers at %s (%s): %s", err.Addr, why, hint)
}

// withNative runs a command's work with a connection.
func (a *app) withNative(work func(ctx context.Context, n *native, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		n, err := a.dialNative(cmd.Context())
		if err != nil {
			return err
		}
		defer n.close()
		return work(cmd.Context(), n, args)
	}
}

// completeNative completes the one stream of a native command, by the control API if the settings lead there: the native protocol lists none.
func (a *app) completeNative(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeStreams(false)(cmd, given, prefix)
}

func (a *app) tryNative(ctx context.Context) (address, result string, err error) {
	n, err := a.dialNative(ctx)
	if err != nil {
		return a.brokers, "", err
	}
	n.close()
	return a.brokers, "token accepted for tenant " + n.tenant + untilWhen(n.token), nil
}
