package ctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// kafkaClient is one command's connection.
type kafkaClient struct {
	*kgo.Client
	admin *kadm.Client
}

// connect makes a client and asks whether anybody is there, within the command's time-out. The caller closes it.
func (a *app) connect(ctx context.Context, extra ...kgo.Opt) (*kafkaClient, error) {
	opts, err := a.options()
	if err != nil {
		return nil, err
	}
	kc, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	c := &kafkaClient{Client: kc, admin: kadm.NewClient(kc)}
	c.admin.SetTimeoutMillis(int32(a.timeout.Milliseconds()))
	if err := a.reach(ctx, c); err != nil {
		kc.Close()
		return nil, err
	}
	return c, nil
}

func (a *app) options() ([]kgo.Opt, error) {
	seeds, err := parseSeeds(a.brokers, kafkaPort)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID("felixctl"),
		kgo.RetryTimeout(a.timeout),
		kgo.MetadataMinAge(maxPoll), // a server that is back is found soon
	}
	if a.tenant != "" {
		password, err := secret(a.token, a.tokenFile, "token-file")
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(plain.Auth{User: a.tenant, Pass: password}.AsMechanism()))
	}
	if a.tls() {
		conf, err := a.tlsConfig()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	return opts, nil
}

// completeKafka completes names that the Kafka listener lists. When nobody answers nothing is offered.
func (a *app) completeKafka(
	cmd *cobra.Command, given []string, prefix string, list func(context.Context, *kafkaClient) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	if a.prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
	defer cancel()
	c, err := a.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	names, err := list(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return offer(names, given, prefix), cobra.ShellCompDirectiveNoFileComp
}

// offer keeps the names that begin as what was typed and were not given before.
func offer(names, given []string, prefix string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) || slices.Contains(given, name) })
}

// kafkaPort is the port of an address that names none.
const kafkaPort = "9092"

// parseSeeds reads --brokers: host or host:port, separated by commas, and the port of those that name none. An IPv6 address with a port is
// in brackets.
func parseSeeds(list, defaultPort string) ([]string, error) {
	var seeds []string
	for seed := range strings.SplitSeq(list, ",") {
		seed = strings.TrimSpace(seed)
		host, port, err := net.SplitHostPort(seed)
		if err != nil {
			host, port = strings.TrimSuffix(strings.TrimPrefix(seed, "["), "]"), defaultPort
			if strings.Contains(host, ":") && net.ParseIP(host) == nil {
				host = ""
			}
		}
		if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
			return nil, usageErrorf("--brokers %q is not host:port,host:port", list)
		}
		seeds = append(seeds, net.JoinHostPort(host, port))
	}
	return seeds, nil
}

func (a *app) tls() bool {
	return a.useTLS || a.caFile != "" || a.serverName != "" || a.clientCertFile != ""
}

// tlsConfig verifies the server always: there is no switch that turns it off.
func (a *app) tlsConfig() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.serverName}
	return conf, tlsFiles(conf, a.caFile, "ca-file", a.clientCertFile, a.clientKeyFile)
}

// reach asks the seeds for their API versions, and turns silence into a sentence that says where nobody was and what to do.
func (a *app) reach(ctx context.Context, c *kafkaClient) error {
	wait, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	err := c.Ping(wait)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return err // explain says where nobody answered
	}
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refusal("log in to "+a.brokers, err, "")
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return unreachableErrorf("the certificate of %s is signed by nobody known here: name its authority with --ca-file", a.brokers)
	}
	var name x509.HostnameError
	if errors.As(err, &name) {
		return unreachableErrorf("the certificate of %s is for another name (%w): name the one it is for with --server-name", a.brokers, err)
	}
	var plaintext tls.RecordHeaderError
	if errors.As(err, &plaintext) {
		return unreachableErrorf("the server at %s does not speak TLS: leave out --tls, --ca-file and --server-name", a.brokers)
	}
	hint := "start one with `felix serve`, or name another with --brokers"
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" {
		// Somebody is there and hangs up: most often one side speaks TLS and the other does not, or a login is asked for.
		hint = "if the server uses TLS, give --tls or --ca-file"
		if a.tls() {
			hint = "if the server does not use TLS, leave out --tls, --ca-file and --server-name"
		}
		if a.tenant == "" {
			hint += "; if it asks for a login, give --tenant and --token"
		}
	}
	hint = firstOf(a.misdirected("Kafka", kafkaPort, "native", nativePort), hint)
	return unreachableErrorf("no Kafka listener answers at %s (%w): %s", a.brokers, err, hint)
}
