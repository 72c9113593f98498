package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/felixlog/felix/internal/cluster"
)

// validate refuses combinations of values that are each fine. One error lists every refusal, so that a person fixes them in one go.
func (l *Loaded) validate() error {
	c := &l.Config
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if c.NodeID == "" || strings.ContainsAny(c.NodeID, " /\\\x00") {
		refuse("node_id %q must be a name without spaces and slashes", c.NodeID)
	}
	roles := slices.Sorted(slices.Values(c.Roles))
	if !slices.Equal(roles, []string{"broker", "controller"}) {
		refuse("roles %q: this release runs a single node, which is broker,controller", strings.Join(c.Roles, ","))
	}
	if c.DataDir == "" {
		refuse("data_dir is empty: name a directory for the records (--data-dir)")
	}
	if err := c.Native.validate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := parseLevels(c.LogLevels); err != nil {
		refuse("log: %w", err)
	}
	if c.Kafka.MaxRequestBytes > c.MemoryBudgetBytes {
		refuse("kafka.max_request_bytes (%d) is larger than memory_budget_bytes (%d): such a request could never be admitted",
			c.Kafka.MaxRequestBytes, c.MemoryBudgetBytes)
	}
	if c.MaxBatchDecodedBytes > c.MemoryBudgetBytes {
		refuse("max_batch_decoded_bytes (%d) is larger than memory_budget_bytes (%d)", c.MaxBatchDecodedBytes, c.MemoryBudgetBytes)
	}
	if c.Storage.IndexSpacingBytes > c.Storage.SegmentBytes {
		refuse("storage.index_spacing_bytes is larger than storage.segment_bytes: the index would never have an entry")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		refuse("tls.cert and tls.key go together: set both or neither")
	}
	errs = append(errs, l.validateTLS()...)
	errs = append(errs, c.API.validate(c.AllowInsecure)...)
	errs = append(errs, l.validateNames()...)
	errs = append(errs, l.validatePorts()...)
	if c.Kafka.Listen != "" {
		errs = append(errs, l.validateKafka()...)
	}
	return errors.Join(errs...)
}

// validateTLS looks at certificates and what is asked of clients' ones, and at the API, which may be plain HTTP.
func (l *Loaded) validateTLS() []error {
	c := &l.Config
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if c.TLS.ClientCAFile != "" && !c.Kafka.TLS && c.NativeListen == "" {
		refuse("tls.client_ca has no effect without TLS on the Kafka listener (FELIX_KAFKA_TLS=true) or a native listener")
	}
	if c.TLS.ClientCAFile != "" && c.TLS.CertFile == "" {
		refuse("tls.client_ca asks clients for certificates, and there is no tls.cert that they could check in turn")
	}
	if c.TLS.BindSubject && c.TLS.ClientCAFile == "" {
		refuse("tls.client_cert_bind_subject needs tls.client_ca: without it no client shows a certificate")
	}
	if c.TLS.ExportFile != "" && c.TLS.CertFile != "" {
		refuse("tls.cert_export writes the authority of a generated certificate, and tls.cert names one of yours: leave one of them out")
	}
	if c.NativeListen != "" && c.TLS.RequireCert && c.TLS.CertFile == "" {
		refuse("tls.require_cert is set and there is no tls.cert for the native listener")
	}
	if (c.TLS.APICertFile == "") != (c.TLS.APIKeyFile == "") {
		refuse("api_tls_cert and api_tls_key go together: set both or neither")
	}
	if c.APIListen != "" && c.TLS.APICertFile == "" && !c.AllowInsecure && !isLoopback(c.APIListen) {
		refuse("api_bind %s is reachable from other machines and sends tokens in clear text without api_tls_cert: "+
			"set it, bind 127.0.0.1, or say --allow-insecure", c.APIListen)
	}
	return errs
}

func (l *Loaded) validateKafka() []error {
	k := &l.Config.Kafka
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if k.TLS && l.Config.TLS.RequireCert && l.Config.TLS.CertFile == "" {
		refuse("tls.require_cert is set and there is no tls.cert for the Kafka listener")
	}
	// With the API or the bootstrap listener there are tokens, and a token is a login: the start says so where no tenant can have one yet.
	if k.AnonymousTenant == "" && len(k.PlainUsers) == 0 && l.Config.APIListen == "" && !l.Config.API.Bootstrap {
		refuse("nobody could log in to the Kafka listener: set FELIX_KAFKA_SASL_PLAIN_USERS (tenant:password), "+
			"or FELIX_BOOTSTRAP_ENABLED for tokens, or for development FELIX_KAFKA_ANONYMOUS_TENANT=default and FELIX_KAFKA_TLS=false on a loopback address%s", l.profileEnded())
	}
	if !l.Config.AllowInsecure && !isLoopback(k.Listen) {
		if k.AnonymousTenant != "" {
			refuse("kafka.listen %s is reachable from other machines and FELIX_KAFKA_ANONYMOUS_TENANT lets anybody in: "+
				"bind 127.0.0.1, or say --allow-insecure", k.Listen)
		}
		if !k.TLS {
			refuse("kafka.listen %s is reachable from other machines and FELIX_KAFKA_TLS=false sends passwords and records in clear text: "+
				"bind 127.0.0.1, or say --allow-insecure", k.Listen)
		}
	}
	if err := validateAdvertise(k); err != nil {
		errs = append(errs, err)
	}
	if g := &l.Config.Groups; g.MaxSessionTimeout < g.MinSessionTimeout {
		refuse("kafka.group_max_session_timeout_ms (%d) is below kafka.group_min_session_timeout_ms (%d): no member could join",
			g.MaxSessionTimeout.Milliseconds(), g.MinSessionTimeout.Milliseconds())
	}
	both := l.isExplicit("kafka.max_connections") && l.isExplicit("kafka.max_connections_per_ip")
	if both && k.MaxConnections > 0 && k.MaxConnectionsPerIP > k.MaxConnections {
		refuse("kafka.max_connections_per_ip (%d) is larger than kafka.max_connections (%d): it would never apply",
			k.MaxConnectionsPerIP, k.MaxConnections)
	}
	return errs
}

// profileEnded explains to a person who knows the development profile why its values do not hold, as a half sentence; "" while they do.
func (l *Loaded) profileEnded() string {
	if l.SingleNode {
		return ""
	}
	return fmt.Sprintf(" (the development profile, which needs no login, ended with %s)", l.ProfileEnd)
}

// validateNames refuses names that the metadata would refuse later, after the start has made directories and bound ports.
func (l *Loaded) validateNames() []error {
	k := &l.Config.Kafka
	errs := []error{cluster.ValidateName("namespace", k.DefaultNamespace)}
	if k.AnonymousTenant != "" {
		errs = append(errs, cluster.ValidateName("tenant", k.AnonymousTenant))
	}
	for _, u := range k.PlainUsers {
		errs = append(errs, cluster.ValidateName("tenant", u.Tenant))
	}
	return errs
}

func validateAdvertise(k *KafkaConfig) error {
	addr, name := k.Advertise, "kafka.advertise_addr"
	if addr == "" {
		addr, name = k.Listen, "kafka.listen"
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%s %q is no address that a client can dial: set FELIX_KAFKA_ADVERTISE_ADDR to the one they should", name, addr)
	}
	if k.Advertise != "" && port == "0" {
		return fmt.Errorf("kafka.advertise_addr %q: port 0 is no port that a client can dial", addr)
	}
	return nil
}

// isExplicit says that somebody set the value, by flag, variable or file, to another one than the default: a printed configuration,
// which has every value, asks for no more than what it was printed from.
func (l *Loaded) isExplicit(name string) bool {
	if o := l.Origins[name]; o == "default" || strings.HasPrefix(o, "profile ") {
		return false
	}
	for _, s := range settings() {
		if s.name() == name {
			var unset Config
			return s.bind(&unset).set(s.Default) != nil || s.bind(&unset).get() != s.bind(&l.Config).get()
		}
	}
	return false
}

// warnings name every switch that weakens something and is on, and settings that have no effect as things are.
func (l *Loaded) warnings() []string {
	c := &l.Config
	var out []string
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }

	if c.AllowInsecure {
		warn("FELIX_ALLOW_INSECURE is on: anonymous and plaintext listeners may bind any address")
	}
	if c.Kafka.Listen == "" {
		warn("kafka.listen is not set: no client can connect; say --kafka-listen 127.0.0.1:9092%s", l.profileEnded())
	}
	if c.Kafka.Listen != "" && !l.SingleNode {
		if c.Kafka.AnonymousTenant != "" {
			warn("FELIX_KAFKA_ANONYMOUS_TENANT is set: whoever reaches %s reads and writes every stream of tenant %s", c.Kafka.Listen, c.Kafka.AnonymousTenant)
		}
		if !c.Kafka.TLS {
			warn("FELIX_KAFKA_TLS is false: passwords and records cross %s in clear text", c.Kafka.Listen)
		}
	}
	if c.TLS.CertFile == "" && !l.SingleNode {
		if c.Kafka.Listen != "" && c.Kafka.TLS {
			warn("no tls.cert is set: the Kafka listener shows a generated certificate")
		}
		if c.NativeListen != "" {
			warn("no tls.cert is set: the native listener shows a generated certificate")
		}
	}
	if c.APIListen != "" && c.TLS.APICertFile == "" && !l.SingleNode {
		warn("no api_tls_cert is set: the API at %s is plain HTTP, and tokens cross it in clear text", c.APIListen)
	}
	if l.isExplicit("storage.fsync_interval_ms") && c.Storage.SyncMode != "periodic" {
		warn("storage.fsync_interval_ms has no effect: storage.fsync_mode is %s", c.Storage.SyncMode)
	}
	out = append(out, c.API.warnings()...)
	if c.PeerListen != "" {
		warn("peer_bind is reserved: this release does not serve that listener")
	}
	return out
}

// isLoopback says that an address can be reached only from this machine.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
