package ctl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/auth"
)

// settings are what all commands share. After prepare they hold what counts for the command: flag, then environment, then context,
// then default.
type settings struct {
	contextFile string
	contextName string

	brokers        string // of the listener that the command speaks to
	ownBrokers     string // what they are when --brokers does not say
	otherBrokers   string // of the other listener: the native one for Kafka commands, the Kafka one for native commands
	tenant         string
	namespace      string
	token          string
	tokenFile      string
	useTLS         bool
	caFile         string
	clientCertFile string
	clientKeyFile  string
	serverName     string

	controlURL       string
	controlToken     string
	controlTokenFile string
	controlCAFile    string

	output  string
	asJSON  bool
	yes     bool
	timeout time.Duration
}

// serverKind is what a command speaks to.
type serverKind string

const (
	noServer      serverKind = "none"
	kafkaServer   serverKind = "kafka"
	nativeServer  serverKind = "native"
	controlServer serverKind = "control"
)

// serverAnnotation marks a command, and those below it, with its server.
const serverAnnotation = "felixctl/server"

// of marks commands with what they speak to.
func of(s serverKind, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[serverAnnotation] = string(s)
		c.GroupID = string(s)
	}
	return commands
}

// serverOf is what a command speaks to: its own mark, or the nearest above.
func serverOf(cmd *cobra.Command) serverKind {
	for c := cmd; c != nil; c = c.Parent() {
		if s, ok := c.Annotations[serverAnnotation]; ok {
			return serverKind(s)
		}
	}
	return noServer
}

// Where servers listen when nothing says otherwise: as a node in the single-node profile does.
const (
	defaultKafkaBrokers  = "127.0.0.1:9092"
	defaultNativeBrokers = "127.0.0.1:5000"
	defaultControlURL    = "http://127.0.0.1:8443"
	defaultNamespace     = "default"
)

// setting is one setting's three sources; key "" means that a context does not hold it.
type setting struct {
	flag, variable, key string
	into                func(*settings) *string
	usage               string
}

// settingTable holds every setting of text. Values of the environment are taken in prepare and are no defaults of flags, so that help does
// not print a token.
var settingTable = []setting{
	{
		"config", "FELIX_CLI_CONFIG", "", func(s *settings) *string { return &s.contextFile },
		"`file` of contexts; felixctl/config.toml in your configuration directory",
	},
	{
		"context", "FELIX_CONTEXT", "", func(s *settings) *string { return &s.contextName },
		"`name` of the context to use; the file's current one",
	},
	{
		"brokers", "FELIX_BROKERS", "", func(s *settings) *string { return &s.brokers },
		"`host:port,...` to ask first: of the native listener (127.0.0.1:5000), or with Kafka commands " +
			"of the Kafka listener (127.0.0.1:9092; FELIX_KAFKA_BROKERS comes first)",
	},
	{
		"tenant", "FELIX_AUTH_TENANT", "tenant", func(s *settings) *string { return &s.tenant },
		"tenant to work in; the token's own",
	},
	{
		"token", "FELIX_AUTH_TOKEN", "token", func(s *settings) *string { return &s.token },
		"token for brokers; for Kafka commands the password of the login",
	},
	{
		"token-file", "FELIX_AUTH_TOKEN_FILE", "token_file", func(s *settings) *string { return &s.tokenFile },
		"file that holds it",
	},
	{
		"ca-file", "FELIX_CA_FILE", "ca_file", func(s *settings) *string { return &s.caFile },
		"certificate authority of brokers, PEM",
	},
	{
		"client-cert-file", "FELIX_CLIENT_CERT_FILE", "client_cert_file", func(s *settings) *string { return &s.clientCertFile },
		"certificate to show where one is asked for, PEM",
	},
	{
		"client-key-file", "FELIX_CLIENT_KEY_FILE", "client_key_file", func(s *settings) *string { return &s.clientKeyFile },
		"its private key, PEM",
	},
	{
		"server-name", "FELIX_SERVER_NAME", "server_name", func(s *settings) *string { return &s.serverName },
		"name that brokers' certificates must have",
	},
	{
		"controlplane-url", "FELIX_CONTROLPLANE_URL", "controlplane_url", func(s *settings) *string { return &s.controlURL },
		"`URL` of the control API; " + defaultControlURL,
	},
	{
		"controlplane-token", "FELIX_CONTROLPLANE_TOKEN", "controlplane_token", func(s *settings) *string { return &s.controlToken },
		"token for the control API",
	},
	{
		"controlplane-token-file", "FELIX_CONTROLPLANE_TOKEN_FILE", "controlplane_token_file", func(s *settings) *string { return &s.controlTokenFile },
		"file that holds it",
	},
	{
		"controlplane-ca-file", "FELIX_CONTROLPLANE_CA", "controlplane_ca_file", func(s *settings) *string { return &s.controlCAFile },
		"certificate authority of the control API, PEM",
	},
}

// namespaceSetting is a flag of the commands that have namespaces alone: consume has another -n.
var namespaceSetting = setting{
	"namespace", "FELIX_NAMESPACE", "namespace", func(s *settings) *string { return &s.namespace },
	"namespace to work in; the one of the name " + defaultNamespace + " if not given",
}

// secretFile names the setting that another one may stand in for: one of the two, from one place.
var secretFile = map[string]string{
	"token": "token-file", "token-file": "token", "controlplane-token": "controlplane-token-file", "controlplane-token-file": "controlplane-token",
}

// addFlags adds the flags that every command has.
func (a *app) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	for _, s := range settingTable {
		f.StringVar(s.into(&a.settings), s.flag, "", s.usage+" ("+s.variable+")")
	}
	f.BoolVar(&a.useTLS, "tls", false, "use TLS with the Kafka listener; implied by --ca-file and --server-name")
	f.StringVarP(&a.output, "output", "o", outputTable, "`table` for people or json for programs")
	f.BoolVar(&a.asJSON, "json", false, "the same as -o json")
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask before something is deleted")
	f.DurationVar(&a.timeout, "timeout", 10*time.Second, "how long to wait for the server")
	must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp)))
	must(root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.contextNames(), cobra.ShellCompDirectiveNoFileComp
	}))
}

// namespaced gives commands the flag for a namespace.
func (a *app) namespaced(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		s := namespaceSetting
		c.PersistentFlags().StringVarP(s.into(&a.settings), s.flag, "n", "", s.usage+" ("+s.variable+")")
	}
	return commands
}

// prepare fills in the settings of a command and refuses those that cannot be, before anything is dialled.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := a.checkOutput(); err != nil {
		return err
	}
	if a.timeout <= 0 {
		return usageErrorf("--timeout must be positive")
	}
	env := environment(a.p.Environ)
	for _, s := range settingTable[:2] { // where contexts are
		// The --config of topic create may have been given without naming a file.
		if into := s.into(&a.settings); !cmd.Flags().Changed(s.flag) || s.flag == "config" && *into == "" {
			*into = env[s.variable]
		}
	}
	to := serverOf(cmd)
	if to == noServer {
		a.fill(cmd, noServer, nil)
		return nil
	}
	c, err := a.chosenContext()
	if err != nil {
		return err
	}
	return a.take(cmd, to, c)
}

// take fills in the settings for a server and checks them.
func (a *app) take(cmd *cobra.Command, to serverKind, c settingsContext) error {
	if to == kafkaServer {
		var err error
		if c, err = a.kafkaContext(c); err != nil {
			return err
		}
	}
	a.fill(cmd, to, c)
	if (a.clientCertFile == "") != (a.clientKeyFile == "") {
		return usageErrorf("a client certificate is --client-cert-file together with --client-key-file")
	}
	if to == kafkaServer && (a.tenant == "") != (a.token == "" && a.tokenFile == "") {
		return usageErrorf("a login is --tenant together with --token or --token-file")
	}
	return nil
}

// kafkaContext is what of a context counts for the Kafka listener, which kafka_security says: that one may have no login and no TLS while
// the native listener has both.
func (a *app) kafkaContext(c settingsContext) (settingsContext, error) {
	security := c["kafka_security"]
	if !slices.Contains(kafkaSecurities, security) && security != "" {
		return nil, usageErrorf("kafka_security = %q is none of %s", security, strings.Join(kafkaSecurities, ", "))
	}
	c = maps.Clone(c)
	if security == securityPlaintext || security == securityTLS {
		delete(c, "tenant")
		delete(c, "token")
		delete(c, "token_file")
	}
	if security == securityPlaintext || security == securitySASL {
		for _, key := range []string{"ca_file", "server_name", "client_cert_file", "client_key_file"} {
			delete(c, key)
		}
	} else {
		a.useTLS = a.useTLS || security != ""
	}
	return c, nil
}

// fill takes each setting from its first source that has it.
func (a *app) fill(cmd *cobra.Command, to serverKind, c settingsContext) {
	env := environment(a.p.Environ)
	given := func(s setting) bool { return cmd.Flags().Changed(s.flag) || env[s.variable] != "" }
	byFlag := map[string]setting{}
	for _, s := range settingTable {
		byFlag[s.flag] = s
	}
	for _, s := range append(slices.Clone(settingTable[2:]), namespaceSetting) {
		into := s.into(&a.settings)
		other, isSecret := byFlag[secretFile[s.flag]]
		switch {
		case cmd.Flags().Changed(s.flag):
		case isSecret && cmd.Flags().Changed(other.flag):
			*into = "" // a file on the command line beats a token of the environment
		case env[s.variable] != "":
			*into = env[s.variable]
		case isSecret && given(other):
			*into = "" // a token of the environment beats a file of the context
		default:
			*into = c[s.key]
		}
	}
	a.ownBrokers, a.otherBrokers = firstOf(env["FELIX_BROKERS"], c["brokers"], defaultNativeBrokers), firstOf(c["kafka_brokers"], defaultKafkaBrokers)
	if to == kafkaServer {
		a.ownBrokers, a.otherBrokers = firstOf(env["FELIX_KAFKA_BROKERS"], env["FELIX_BROKERS"], c["kafka_brokers"], defaultKafkaBrokers),
			firstOf(c["brokers"], defaultNativeBrokers)
	}
	if !cmd.Flags().Changed("brokers") {
		a.brokers = a.ownBrokers
	}
	a.namespace = firstOf(a.namespace, defaultNamespace)
	a.controlURL = firstOf(a.controlURL, defaultControlURL)
}

// misdirected says that brokers are the other listener's, and what to do; empty when that is not known. own and other name the listeners.
func (a *app) misdirected(own, ownPort, other, otherPort string) string {
	asked, err1 := parseSeeds(a.brokers, ownPort)
	others, err2 := parseSeeds(a.otherBrokers, otherPort)
	if err1 != nil || err2 != nil {
		return ""
	}
	for _, seed := range asked {
		host, port, err := net.SplitHostPort(seed)
		if err != nil || !slices.Contains(others, seed) && (port != otherPort || !loopback(host)) {
			continue
		}
		text := "that is the " + other + " listener, and this command speaks to the " + own + " one"
		if a.ownBrokers != a.brokers {
			text += ", at " + a.ownBrokers
		}
		return text
	}
	return ""
}

// firstOf is the first text that is not empty.
func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// secret is a token, from where the settings say it is; file is the flag that names the file, for errors.
func secret(token, file, flag string) (string, error) {
	if token != "" {
		return token, nil
	}
	text, err := readLimited(file, 64<<10)
	if err != nil {
		return "", usageErrorf("--%s: %w", flag, err)
	}
	if token = strings.TrimSpace(string(text)); token == "" {
		return "", usageErrorf("--%s: %s is empty", flag, file)
	}
	return token, nil
}

// tenantOf is the tenant to work in: that of the settings, or else the token's own.
func (a *app) tenantOf(token string) (string, error) {
	if a.tenant != "" {
		return a.tenant, nil
	}
	said, err := auth.Look(token)
	if err != nil {
		return "", usageErrorf("no tenant: give --tenant, for the token is no Felix token that would name one (%s)", auth.DetailOf(err))
	}
	return said.Tenant, nil
}

// tlsFiles adds an authority and a client certificate to a configuration; empty names add nothing.
func tlsFiles(conf *tls.Config, ca, caFlag, cert, key string) error {
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return usageErrorf("--%s: %w", caFlag, err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return usageErrorf("--%s: %s holds no certificate", caFlag, ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return usageErrorf("--client-cert-file, --client-key-file: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// chosenContext is the context that the settings name, or the current one; nil when there is none.
func (a *app) chosenContext() (settingsContext, error) {
	file, err := a.contexts()
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || a.contextFile != "") {
		return nil, usageErrorf("context file: %w", err)
	}
	name := firstOf(a.contextName, file.current)
	if name == "" {
		return nil, nil
	}
	return file.named(name)
}
