package node

import (
	"math"
	"slices"
	"time"
)

//go:generate go test -count=1 -run ^Test(Configuration|Metrics)Document$ . -rewrite

// setting is one row of the configuration table: the names a value goes by, and what it may be. docs/configuration.md is generated
// from this table, so Doc is written for the person who sets it.
type setting struct {
	Key     string // name in the file; a dot is a nested mapping. "" means that the file may not hold it
	Env     string // "" means that the environment may not hold it
	Flag    string // "" means that no flag sets it
	Kind    string // addr, path, text, enum, bool, n, bytes, ms, s, min, list
	Default string // as set would read it
	Profile string // value in the single-node profile, where that differs from Default
	Doc     string

	Weakens bool // gives something away: flag or environment only, and named in a warning when on
	Secret  bool // never printed
	Decides bool // being set, it means that a person configures access or membership: the single-node profile does not apply

	bind func(*Config) binding
}

// name is how messages call the setting: by the file's key, or by the variable where the file has none.
func (s setting) name() string {
	if s.Key != "" {
		return s.Key
	}
	return s.Env
}

const (
	kib      = 1 << 10
	mib      = 1 << 20
	gib      = 1 << 30
	maxBytes = math.MaxInt64
	day      = 24 * time.Hour
	century  = 36525 * day // the longest duration that a setting may ask for
)

// settings is the table. Its order is the order of docs/configuration.md and of --print-config.
func settings() []setting {
	return slices.Concat(processSettings(), kafkaSettings(), groupSettings(), nativeSettings(), apiSettings(), tlsSettings(), quotaSettings(), storageSettings())
}

func processSettings() []setting {
	return []setting{
		{
			Key: "node_id", Env: "FELIX_NODE_ID", Flag: "node-id", Kind: "text", Default: "node-1", Decides: true,
			Doc:  "Stable name of this node. It is recorded in the data directory; a directory of another node refuses to open.",
			bind: func(c *Config) binding { return textOf(&c.NodeID) },
		},
		{
			Key: "roles", Env: "FELIX_ROLES", Flag: "roles", Kind: "list", Default: "broker,controller", Decides: true,
			Doc:  "What the process is. A single node is both; this release runs no other combination.",
			bind: func(c *Config) binding { return listOf(&c.Roles) },
		},
		{
			Key: "data_dir", Env: "FELIX_DURABLE_STORAGE_DIR", Flag: "data-dir", Kind: "path", Default: "data",
			Doc:  "Directory of everything that the node keeps: `raft/`, `journal/`, `shards/`, `dev/`, and `native-reset.key`, which lets clients of a killed node notice at once. One process at a time holds it.",
			bind: func(c *Config) binding { return textOf(&c.DataDir) },
		},
		{
			Key: "metrics_bind", Env: "FELIX_BROKER_METRICS_BIND", Flag: "metrics-listen", Kind: "addr", Default: "127.0.0.1:8080",
			Doc:  "Metrics and probes over HTTP, without authentication; profiles as well while it is on loopback. Empty is off. Port 0 picks a free one.",
			bind: func(c *Config) binding { return addrOf(&c.AdminAPI) },
		},
		{
			Key: "ready_file", Env: "FELIX_READY_FILE", Flag: "ready-file", Kind: "path", Default: "",
			Doc:  "File that is written, as JSON, with the bound addresses once the node serves.",
			bind: func(c *Config) binding { return textOf(&c.ReadyFile) },
		},
		{
			Env: "FELIX_ALLOW_INSECURE", Flag: "allow-insecure", Kind: "bool", Default: "false", Weakens: true, Decides: true,
			Doc:  "Lets anonymous or plaintext listeners bind addresses other than loopback.",
			bind: func(c *Config) binding { return boolOf(&c.AllowInsecure) },
		},
		{
			Key: "log", Env: "FELIX_LOG", Flag: "log", Kind: "text", Default: "info",
			Doc:  "Log level (`debug`, `info`, `warn`, `error`), also by component: `info,kafkaproto=debug,log=warn`.",
			bind: func(c *Config) binding { return textOf(&c.LogLevels) },
		},
		{
			Key: "log_format", Env: "FELIX_LOG_FORMAT", Flag: "log-format", Kind: "enum", Default: "text",
			Doc:  "`text` for people, `json` for programs; one line an entry, on standard output.",
			bind: func(c *Config) binding { return enumOf(&c.LogFormat, "text", "json") },
		},
		{
			Key: "memory_budget_bytes", Env: "FELIX_MEMORY_BUDGET_BYTES", Kind: "bytes", Default: "256MiB",
			Doc:  "Bound of what all requests and answers in flight hold at once; connections wait their turn at the bound. Not less than `kafka.max_request_bytes` and `max_batch_decoded_bytes`.",
			bind: func(c *Config) binding { return bytesOf(&c.MemoryBudgetBytes, 16*mib, maxBytes) },
		},
		{
			Key: "max_batch_decoded_bytes", Env: "FELIX_MAX_BATCH_DECODED_BYTES", Kind: "bytes", Default: "16MiB",
			Doc:  "Largest decoded size of one compressed batch, wherever the server must open one.",
			bind: func(c *Config) binding { return bytesOf(&c.MaxBatchDecodedBytes, mib, gib) },
		},
		{
			Key: "publish_quorum_timeout_ms", Env: "FELIX_PUBLISH_QUORUM_TIMEOUT_MS", Kind: "ms", Default: "5000",
			Doc: "Longest wait of an acks=all produce for its replicas; the request's own timeout_ms counts where it is shorter.",
			bind: func(c *Config) binding {
				return durationOf(&c.QuorumTimeout, time.Millisecond, time.Millisecond, time.Hour)
			},
		},
		{
			Key: "shutdown_predrain_ms", Env: "FELIX_SHUTDOWN_PREDRAIN_MS", Kind: "ms", Default: "0",
			Doc:  "How long to serve on after `/ready` fell, so that load balancers look away first.",
			bind: func(c *Config) binding { return durationOf(&c.ShutdownPredrain, time.Millisecond, 0, time.Hour) },
		},
		{
			Key: "shutdown_drain_timeout_ms", Env: "FELIX_SHUTDOWN_DRAIN_TIMEOUT_MS", Kind: "ms", Default: "25000",
			Doc: "One budget for everything that a stop waits for; what is left then is cut off, named in the log, and the exit status is 1.",
			bind: func(c *Config) binding {
				return durationOf(&c.ShutdownDrain, time.Millisecond, time.Millisecond, time.Hour)
			},
		},
		{
			Key: "quic_bind", Env: "FELIX_QUIC_BIND", Flag: "native-listen", Kind: "addr", Default: "", Profile: "127.0.0.1:5000",
			Doc:  "Native listener (QUIC over UDP). Always TLS 1.3, always with a token. Empty is off. Port 0 picks a free one.",
			bind: func(c *Config) binding { return addrOf(&c.NativeListen) },
		},
		{
			Key: "api_bind", Env: "FELIX_CONTROLPLANE_BIND", Flag: "api-listen", Kind: "addr", Default: "", Profile: "127.0.0.1:8443",
			Doc:  "Control-plane API. Plain HTTP without `api_tls_cert`, which is for loopback. Empty is off. Port 0 picks a free one.",
			bind: func(c *Config) binding { return addrOf(&c.APIListen) },
		},
		{
			Key: "api_tls_cert", Env: "FELIX_CONTROLPLANE_TLS_CERT", Kind: "path", Default: "", Decides: true,
			Doc:  "Certificate chain of the API (PEM), which makes it HTTPS. Together with `api_tls_key`.",
			bind: func(c *Config) binding { return textOf(&c.TLS.APICertFile) },
		},
		{
			Key: "api_tls_key", Env: "FELIX_CONTROLPLANE_TLS_KEY", Kind: "path", Default: "", Decides: true,
			Doc:  "Private key of `api_tls_cert` (PEM).",
			bind: func(c *Config) binding { return textOf(&c.TLS.APIKeyFile) },
		},
		{
			Key: "peer_bind", Env: "FELIX_INTERNAL_BIND", Flag: "peer-listen", Kind: "addr", Default: "", Decides: true,
			Doc:  "Listener for other nodes. Reserved: this release runs one node and does not serve it.",
			bind: func(c *Config) binding { return addrOf(&c.PeerListen) },
		},
	}
}

func kafkaSettings() []setting {
	return []setting{
		{
			Key: "kafka.listen", Env: "FELIX_KAFKA_LISTEN", Flag: "kafka-listen", Kind: "addr", Default: "", Profile: "127.0.0.1:9092",
			Doc:  "Kafka listener (TCP). Empty is off. Port 0 picks a free one.",
			bind: func(c *Config) binding { return addrOf(&c.Kafka.Listen) },
		},
		{
			Key: "kafka.advertise_addr", Env: "FELIX_KAFKA_ADVERTISE_ADDR", Flag: "kafka-advertise", Kind: "addr", Default: "", Decides: true,
			Doc:  "Address that Metadata gives to clients; a name is allowed. Empty is the listen address. Needed when that is a wildcard.",
			bind: func(c *Config) binding { return addrOf(&c.Kafka.Advertise) },
		},
		{
			Env: "FELIX_KAFKA_TLS", Flag: "kafka-tls", Kind: "bool", Default: "true", Profile: "false", Decides: true,
			Doc:  "TLS on the Kafka listener, with the certificate of `tls.cert` or else a generated one. `false` sends passwords and records in clear text.",
			bind: func(c *Config) binding { return boolOf(&c.Kafka.TLS) },
		},
		{
			Env: "FELIX_KAFKA_ANONYMOUS_TENANT", Flag: "kafka-anonymous-tenant", Kind: "text", Default: "", Profile: "default",
			Weakens: true, Decides: true,
			Doc:  "Tenant that a connection without a login acts for, with every right on it. For development. Empty demands a login.",
			bind: func(c *Config) binding { return textOf(&c.Kafka.AnonymousTenant) },
		},
		{
			Env: "FELIX_KAFKA_SASL_PLAIN_USERS", Kind: "list", Default: "", Secret: true, Decides: true,
			Doc: "Static logins for SASL PLAIN, `tenant:password,tenant:password`: the user name is the tenant it acts for. " +
				"Beside them a token of the tenant is taken as the password.",
			bind: func(c *Config) binding { return credentialsOf(&c.Kafka.PlainUsers) },
		},
		{
			Key: "kafka.default_namespace", Env: "FELIX_KAFKA_DEFAULT_NAMESPACE", Kind: "text", Default: "default",
			Doc:  "Namespace of a topic whose name has no dot.",
			bind: func(c *Config) binding { return textOf(&c.Kafka.DefaultNamespace) },
		},
		{
			Key: "kafka.auto_create_topics", Env: "FELIX_KAFKA_AUTO_CREATE_TOPICS", Flag: "kafka-auto-create-topics", Kind: "bool", Default: "true",
			Doc:  "Create a topic (and its namespace) when a client first names it and its library asks for that.",
			bind: func(c *Config) binding { return boolOf(&c.Kafka.AutoCreateTopics) },
		},
		{
			Key: "kafka.default_partitions", Env: "FELIX_KAFKA_DEFAULT_PARTITIONS", Kind: "n", Default: "1",
			Doc:  "Partitions of an auto-created topic, and of one created without a number.",
			bind: func(c *Config) binding { return intOf(&c.Kafka.DefaultPartitions, 1, 10000) },
		},
		{
			Key: "kafka.max_connections", Env: "FELIX_KAFKA_MAX_CONNECTIONS", Kind: "n", Default: "10000",
			Doc:  "Connections at once; one more is closed on arrival. 0 is unlimited.",
			bind: func(c *Config) binding { return intOf(&c.Kafka.MaxConnections, 0, math.MaxInt32) },
		},
		{
			Key: "kafka.max_connections_per_ip", Env: "FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", Kind: "n", Default: "1024",
			Doc:  "Connections from one address, checked first; loopback is exempt. 0 is unlimited.",
			bind: func(c *Config) binding { return intOf(&c.Kafka.MaxConnectionsPerIP, 0, math.MaxInt32) },
		},
		{
			Key: "kafka.auth_timeout_ms", Env: "FELIX_KAFKA_AUTH_TIMEOUT_MS", Kind: "ms", Default: "10000",
			Doc: "Time for the TLS handshake and for the login, each; a connection that needs more is closed.",
			bind: func(c *Config) binding {
				return durationOf(&c.Kafka.AuthTimeout, time.Millisecond, 100*time.Millisecond, time.Hour)
			},
		},
		{
			Key: "kafka.max_request_bytes", Env: "FELIX_KAFKA_MAX_REQUEST_BYTES", Kind: "bytes", Default: "100MiB",
			Doc:  "Largest request after login; before it the bound is 64 KiB.",
			bind: func(c *Config) binding { return bytesOf(&c.Kafka.MaxRequestBytes, 64*kib, math.MaxInt32) },
		},
	}
}

func tlsSettings() []setting {
	return []setting{
		{
			Key: "tls.cert", Env: "FELIX_TLS_CERT", Flag: "tls-cert", Kind: "path", Default: "", Decides: true,
			Doc:  "Certificate chain of the client listeners (PEM). Together with `tls.key`.",
			bind: func(c *Config) binding { return textOf(&c.TLS.CertFile) },
		},
		{
			Key: "tls.key", Env: "FELIX_TLS_KEY", Flag: "tls-key", Kind: "path", Default: "", Decides: true,
			Doc:  "Private key of `tls.cert` (PEM).",
			bind: func(c *Config) binding { return textOf(&c.TLS.KeyFile) },
		},
		{
			Key: "tls.client_ca", Env: "FELIX_TLS_CLIENT_CA", Kind: "path", Default: "", Decides: true,
			Doc:  "Certificate authority (PEM) whose certificate every client must show.",
			bind: func(c *Config) binding { return textOf(&c.TLS.ClientCAFile) },
		},
		{
			Key: "tls.require_cert", Env: "FELIX_TLS_REQUIRE_CERT", Kind: "bool", Default: "false", Decides: true,
			Doc:  "Refuse to start with a generated certificate.",
			bind: func(c *Config) binding { return boolOf(&c.TLS.RequireCert) },
		},
		{
			Key: "tls.client_cert_bind_subject", Env: "FELIX_TLS_CLIENT_CERT_BIND_SUBJECT", Kind: "bool", Default: "false", Decides: true,
			Doc: "A client's certificate must be issued to the principal of its token (or its actor): a URI `felix:principal:<sub>`, or a DNS " +
				"name or address that is the principal. Needs `tls.client_ca`.",
			bind: func(c *Config) binding { return boolOf(&c.TLS.BindSubject) },
		},
		{
			Key: "tls.require_alpn", Env: "FELIX_TLS_REQUIRE_ALPN", Kind: "bool", Default: "false", Decides: true,
			Doc:  "Refuse native clients that do not offer the protocol `felix/1`. Clients that offer only others are refused always.",
			bind: func(c *Config) binding { return boolOf(&c.TLS.RequireALPN) },
		},
		{
			Key: "tls.cert_export", Env: "FELIX_TLS_CERT_EXPORT", Kind: "path", Default: "", Decides: true,
			Doc:  "File that is written, readable by everybody, with the authority of a generated certificate (PEM), for development. Not together with `tls.cert`.",
			bind: func(c *Config) binding { return textOf(&c.TLS.ExportFile) },
		},
	}
}
