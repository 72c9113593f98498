package node

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// noFile is a ReadFile without any file.
func noFile(string) ([]byte, error) { return nil, fs.ErrNotExist }

// oneFile gives the same text under every path.
func oneFile(text string) func(string) ([]byte, error) {
	return func(string) ([]byte, error) { return []byte(text), nil }
}

func TestLoadSingleNodeProfile(t *testing.T) {
	l, err := Load(Sources{ReadFile: noFile})
	if err != nil {
		t.Fatal(err)
	}
	if !l.SingleNode {
		t.Error("nothing is set and the single-node profile does not apply")
	}
	k := l.Config.Kafka
	got := map[string]any{
		"listen": k.Listen, "tls": k.TLS, "anonymous": k.AnonymousTenant, "create": k.AutoCreateTopics, "namespace": k.DefaultNamespace,
		"connections": k.MaxConnections, "per_ip": k.MaxConnectionsPerIP, "request": k.MaxRequestBytes, "admin": l.Config.AdminAPI,
		"sync": l.Config.Storage.SyncMode, "interval": l.Config.Storage.SyncInterval, "segment": l.Config.Storage.SegmentBytes,
		"quorum": l.Config.QuorumTimeout, "decoded": l.Config.MaxBatchDecodedBytes,
	}
	want := map[string]any{
		"listen": "127.0.0.1:9092", "tls": false, "anonymous": "default", "create": true, "namespace": "default",
		"connections": 10000, "per_ip": 1024, "request": int64(100 << 20), "admin": "127.0.0.1:8080",
		"sync": "periodic", "interval": 250 * time.Millisecond, "segment": int64(256 << 20),
		"quorum": 5 * time.Second, "decoded": int64(16 << 20),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(l.Warnings) != 0 {
		t.Errorf("got warnings %q, want none", l.Warnings)
	}
}

func TestSingleNodeProfileApplies(t *testing.T) {
	login := "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret"
	tests := []struct {
		name string
		src  Sources
		want bool
	}{
		{"data_dir_flag", Sources{Flags: map[string]string{"data-dir": "/tmp/x"}}, true},
		{"loopback_listen", Sources{Flags: map[string]string{"kafka-listen": "127.0.0.1:0"}}, true},
		{"localhost_listen", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=localhost:9092"}}, true},
		{"ipv6_listen", Sources{Flags: map[string]string{"kafka-listen": "[::1]:0"}}, true},
		{"log_level", Sources{Environ: []string{"FELIX_LOG=debug"}}, true},
		{"fsync", Sources{Environ: []string{"FELIX_DURABLE_FSYNC_MODE=on_commit"}}, true},
		{"empty_variable", Sources{Environ: []string{"FELIX_KAFKA_TLS="}}, true},
		{"login", Sources{Environ: []string{login}}, false},
		{"node_id", Sources{Flags: map[string]string{"node-id": "a"}, Environ: []string{login}}, false},
		{"open_listen", Sources{Flags: map[string]string{"kafka-listen": "192.0.2.1:9092"}, Environ: []string{login}}, false},
		{"file", Sources{ReadFile: oneFile("data_dir: /tmp/x"), Environ: []string{login}}, false},
		{"loopback_native_and_api", Sources{Flags: map[string]string{"native-listen": "127.0.0.1:0", "api-listen": "[::1]:0"}}, true},
		{"native_and_api_off", Sources{Flags: map[string]string{"native-listen": "", "api-listen": ""}}, true},
		{"tokens_of_a_client", Sources{Environ: []string{"FELIX_AUTH_TOKEN=a.b.c", "FELIX_CONTROLPLANE_TOKEN=a.b.c", "FELIX_AUTH_TENANT=t"}}, true},
		{"open_native_listen", Sources{Flags: map[string]string{"native-listen": "0.0.0.0:5000"}, Environ: []string{login}}, false},
		{"open_api_listen", Sources{Environ: []string{"FELIX_CONTROLPLANE_BIND=192.0.2.1:8443", "FELIX_CONTROLPLANE_TLS_CERT=c", "FELIX_CONTROLPLANE_TLS_KEY=k"}}, false},
		{"certificate", Sources{Environ: []string{"FELIX_TLS_CERT=c", "FELIX_TLS_KEY=k"}}, false},
		{"cert_export", Sources{Environ: []string{"FELIX_TLS_CERT_EXPORT=ca.pem"}}, false},
		{"advertised_to_native_clients", Sources{Environ: []string{"FELIX_CLIENT_ADVERTISE_ADDR=192.0.2.1:5000"}}, false},
		{"advertised_on_loopback", Sources{Environ: []string{"FELIX_CLIENT_ADVERTISE_ADDR=127.0.0.1:5000"}}, true},
		{"region", Sources{Environ: []string{"FELIX_REGION_ID=eu"}}, false},
		{"bootstrap_token", Sources{Environ: []string{"FELIX_BOOTSTRAP_TOKEN=x"}}, false},
		{"raft_of_a_later_release", Sources{Environ: []string{"FELIX_RAFT_PEERS=1=a:1"}}, false},
		{"peers_of_a_later_release", Sources{Environ: []string{"FELIX_NODE_TOKEN_FILE=t"}}, false},
		{"misspelled_certificate", Sources{Environ: []string{"FELIX_TLS_CRT=c"}}, false},
		{"control_plane_of_a_client", Sources{Environ: []string{"FELIX_CONTROLPLANE_URL=http://127.0.0.1:1", "FELIX_CONTROLPLANE_CA=c"}}, true},
		{"alpn", Sources{Environ: []string{"FELIX_TLS_REQUIRE_ALPN=true"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.src.ReadFile == nil {
				tt.src.ReadFile = noFile
			}
			l, err := Load(tt.src)
			if err != nil {
				t.Fatal(err)
			}
			if l.SingleNode != tt.want {
				t.Errorf("got single node %v, want %v", l.SingleNode, tt.want)
			}
		})
	}
}

func TestLoadPrecedence(t *testing.T) {
	file := "kafka:\n  max_connections: 3\n  default_partitions: 3\n  max_request_bytes: 3MiB\nstorage: {fsync_mode: none}\n"
	l, err := Load(Sources{
		Flags:      map[string]string{"fsync": "on_commit", "kafka-listen": "127.0.0.1:0"},
		ConfigFile: "node.yaml",
		ReadFile:   oneFile(file),
		Environ: []string{
			"FELIX_KAFKA_MAX_CONNECTIONS=2", "FELIX_DURABLE_FSYNC_MODE=periodic", "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret", "PATH=/bin",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range settings() {
		switch s.name() {
		case "storage.fsync_mode", "kafka.max_connections", "kafka.default_partitions", "kafka.max_request_bytes", "kafka.listen", "node_id":
			got[s.name()] = s.bind(&l.Config).get() + " from " + l.Origins[s.name()]
		}
	}
	want := map[string]string{
		"storage.fsync_mode":       "on_commit from flag --fsync",
		"kafka.max_connections":    "2 from environment FELIX_KAFKA_MAX_CONNECTIONS",
		"kafka.default_partitions": "3 from file node.yaml",
		"kafka.max_request_bytes":  "3MiB from file node.yaml",
		"kafka.listen":             "127.0.0.1:0 from flag --kafka-listen",
		"node_id":                  "node-1 from default",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	login := "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret"
	flags := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	tests := []struct {
		name string
		src  Sources
		want string // part of the message
	}{
		{"bool", Sources{Environ: []string{"FELIX_KAFKA_TLS=maybe"}}, "not a truth value"},
		{"number", Sources{Environ: []string{"FELIX_KAFKA_MAX_CONNECTIONS=many"}}, "not a whole number"},
		{"negative", Sources{Environ: []string{"FELIX_KAFKA_MAX_CONNECTIONS=-1"}}, "outside"},
		{"bytes", Sources{Environ: []string{"FELIX_MEMORY_BUDGET_BYTES=1TB"}}, "number of bytes"},
		{"bytes_overflow", Sources{Environ: []string{"FELIX_MEMORY_BUDGET_BYTES=99999999999999GiB"}}, "number of bytes"},
		{"enum", Sources{Flags: flags("fsync", "always")}, "none of none, periodic, on_commit"},
		{"interval_zero", Sources{Environ: []string{"FELIX_DURABLE_FSYNC_INTERVAL_MS=0"}}, "outside"},
		{"address", Sources{Flags: flags("kafka-listen", "9092")}, "not host:port"},
		{"port", Sources{Flags: flags("kafka-listen", "127.0.0.1:99999")}, "not a number from 0 to 65535"},
		{"log_level", Sources{Environ: []string{"FELIX_LOG=loud"}}, "none of debug, info, warn, error"},
		{"roles", Sources{Flags: flags("roles", "broker"), Environ: []string{login}}, "broker,controller"},
		{"node_id", Sources{Flags: flags("node-id", "a b"), Environ: []string{login}}, "without spaces"},
		{"named_file_missing", Sources{ConfigFile: "/none.yml"}, "file does not exist"},
		{"variable_file_missing", Sources{Environ: []string{"FELIX_BROKER_CONFIG=/none.yml"}}, "file does not exist"},
		{"unknown_key", Sources{ConfigFile: "f", ReadFile: oneFile("metrics: x")}, "unknown key metrics"},
		{"unknown_nested_key", Sources{ConfigFile: "f", ReadFile: oneFile("kafka:\n  lisen: 127.0.0.1:1")}, "line 2: unknown key kafka.lisen (did you mean kafka.listen?)"},
		{"key_twice", Sources{ConfigFile: "f", ReadFile: oneFile("log: info\nlog: warn")}, "log appears twice"},
		{"key_without_value", Sources{ConfigFile: "f", ReadFile: oneFile("log:")}, "no plain value"},
		{"not_a_mapping", Sources{ConfigFile: "f", ReadFile: oneFile("- a")}, "expected keys and values"},
		{"not_yaml", Sources{ConfigFile: "f", ReadFile: oneFile("a: [")}, "configuration file f"},
		{"weak_in_file", Sources{ConfigFile: "f", ReadFile: oneFile("kafka: {tls: false}")}, "FELIX_KAFKA_TLS"},
		{"nobody_may_log_in", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=127.0.0.1:0", "FELIX_KAFKA_TLS=true"}}, "nobody could log in"},
		{"anonymous_open", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=192.0.2.1:9092", "FELIX_KAFKA_ANONYMOUS_TENANT=t"}}, "lets anybody in"},
		{"plaintext_open", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=192.0.2.1:9092", "FELIX_KAFKA_TLS=false", login}}, "clear text"},
		{"wildcard", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=0.0.0.0:9092", login}}, "no address that a client can dial"},
		{"wildcard_advertised", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=127.0.0.1:0", "FELIX_KAFKA_ADVERTISE_ADDR=[::]:9092", login}}, "no address that a client can dial"},
		{"port_zero_advertised", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=127.0.0.1:0", "FELIX_KAFKA_ADVERTISE_ADDR=a:0", login}}, "port 0"},
		{"cert_without_key", Sources{Environ: []string{"FELIX_TLS_CERT=a.pem", login}}, "go together"},
		{"bind_without_ca", Sources{Environ: []string{"FELIX_TLS_CLIENT_CERT_BIND_SUBJECT=1", login}}, "tls.client_cert_bind_subject needs tls.client_ca"},
		{"require_cert", Sources{Environ: []string{"FELIX_TLS_REQUIRE_CERT=1", "FELIX_KAFKA_LISTEN=127.0.0.1:0", login}}, "tls.require_cert"},
		{"per_ip_over_total", Sources{Environ: []string{"FELIX_KAFKA_LISTEN=127.0.0.1:0", "FELIX_KAFKA_MAX_CONNECTIONS=5", "FELIX_KAFKA_MAX_CONNECTIONS_PER_IP=6", login}}, "never apply"},
		{"request_over_budget", Sources{Environ: []string{"FELIX_MEMORY_BUDGET_BYTES=32MiB"}}, "never be admitted"},
		{"tenant_twice", Sources{Environ: []string{"FELIX_KAFKA_SASL_PLAIN_USERS=a:b,a:c"}}, "appears twice"},
		{"quota_twice", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_QUOTAS=a:1:0,b:0:0,a:2:0"}}, `tenant "a" appears twice`},
		{"quota_fields", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_QUOTAS=a:1"}}, "an entry is tenant:bytes:records"},
		{"quota_empty_entry", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_QUOTAS=a:1:1,"}}, "an entry is tenant:bytes:records"},
		{"quota_tenant", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_QUOTAS=:1:1"}}, "name is empty"},
		{"quota_bytes", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_QUOTAS=a:1MB:1"}}, "number of bytes"},
		{"quota_records", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_QUOTAS=a:1:many"}}, "not a whole number"},
		{"quota_negative", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_QUOTAS=a:1:-1"}}, "negative"},
		{"quota_rate_negative", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_MSGS_PER_SEC=-1"}}, "outside"},
		{"quota_rate", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_MSGS_PER_SEC=1MiB"}}, "not a whole number"},
		{"tenant_with_a_space", Sources{Environ: []string{"FELIX_KAFKA_SASL_PLAIN_USERS=my tenant:secret"}}, "only letters, digits"},
		{"anonymous_tenant_with_a_slash", Sources{Environ: []string{"FELIX_KAFKA_ANONYMOUS_TENANT=a/b"}}, "only letters, digits"},
		{"namespace", Sources{Environ: []string{"FELIX_KAFKA_DEFAULT_NAMESPACE=-a"}}, "first character"},
		{"profile_ended_by_a_file", Sources{ConfigFile: "n.yml", ReadFile: oneFile("kafka: {listen: 127.0.0.1:0}")}, "the development profile, which needs no login, ended with file n.yml"},
		{"profile_ended_by_a_flag", Sources{Flags: flags("node-id", "a", "kafka-listen", "127.0.0.1:0")}, "ended with flag --node-id"},
		{"profile_ended_by_a_variable", Sources{Environ: []string{"FELIX_KAFKA_TLS=true"}, Flags: flags("kafka-listen", "127.0.0.1:0")}, "ended with environment FELIX_KAFKA_TLS"},
		{"row_149_binding_without_ca", Sources{Environ: []string{"FELIX_TLS_CLIENT_CERT_BIND_SUBJECT=1"}}, "needs tls.client_ca"},
		{"row_149_client_ca_without_tls", Sources{Environ: []string{"FELIX_TLS_CLIENT_CA=ca.pem", "FELIX_KAFKA_TLS=false"}}, "tls.client_ca has no effect"},
		{"row_154_export", Sources{Environ: []string{"FELIX_TLS_CERT=c", "FELIX_TLS_KEY=k", "FELIX_TLS_CERT_EXPORT=e"}}, "tls.cert_export"},
		{"native_require_cert", Sources{Environ: []string{"FELIX_TLS_REQUIRE_CERT=1", "FELIX_QUIC_BIND=127.0.0.1:0"}}, "for the native listener"},
		{"api_cert_without_key", Sources{Environ: []string{"FELIX_CONTROLPLANE_TLS_CERT=c"}}, "go together"},
		{"api_open", Sources{Environ: []string{"FELIX_CONTROLPLANE_BIND=0.0.0.0:8443"}}, "clear text"},
		{"quota_burst", Sources{Environ: []string{"FELIX_TENANT_PUBLISH_BURST_MS=0"}}, "outside"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.src.ReadFile == nil {
				tt.src.ReadFile = noFile
			}
			_, err := Load(tt.src)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestLoadNamesEveryBadValue(t *testing.T) {
	l, err := Load(Sources{ReadFile: noFile, Environ: []string{"FELIX_KAFKA_TLS=maybe", "FELIX_MEMORY_BUDGET_BYTES=1TB", "FELIX_LOG_FORMAT=xml"}})
	if l != nil || err == nil {
		t.Fatalf("got %v, %v, want a refusal", l, err)
	}
	for _, want := range []string{"FELIX_KAFKA_TLS", "memory_budget_bytes", "log_format"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}

// TestNoKafkaListenerWarns: a node that no client can reach says so, and what ended the profile that has a listener.
func TestNoKafkaListenerWarns(t *testing.T) {
	for origin, src := range map[string]Sources{
		"environment FELIX_KAFKA_SASL_PLAIN_USERS": {Environ: []string{"FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret"}},
		"flag --node-id":         {Flags: map[string]string{"node-id": "a"}},
		"flag --kafka-advertise": {Flags: map[string]string{"kafka-advertise": "a:9092"}},
	} {
		src.ReadFile = noFile
		l, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "no client can connect") || !strings.Contains(l.Warnings[0], "ended with "+origin) {
			t.Errorf("%s: got %q", origin, l.Warnings)
		}
	}
}

// TestPrintedProfileIsAFile: what the development profile prints makes the same node as a file, with the variables that it names.
func TestPrintedProfileIsAFile(t *testing.T) {
	for _, environ := range [][]string{nil, {"FELIX_KAFKA_MAX_CONNECTIONS=500"}, {"FELIX_DURABLE_FSYNC_MODE=on_commit"}} {
		first, err := Load(Sources{ReadFile: noFile, Environ: environ})
		if err != nil || !first.SingleNode {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := first.Print(&out); err != nil {
			t.Fatal(err)
		}
		_, line, found := strings.Cut(out.String(), "in the environment: ")
		line, _, _ = strings.Cut(line, "\n")
		if !found {
			t.Fatalf("no variables are named:\n%s", out.String())
		}
		second, err := Load(Sources{ConfigFile: "printed", ReadFile: oneFile(out.String()), Environ: strings.Fields(line)})
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		first.Config.Development = false // a file ends the profile, and with it the tokens that it keeps
		if diff := cmp.Diff(first.Config, second.Config); diff != "" {
			t.Error(diff)
		}
		for _, w := range second.Warnings { // that access is open or unverified is worth a warning outside the profile
			if !strings.Contains(w, "FELIX_KAFKA_") && !strings.Contains(w, "tls_cert") && !strings.Contains(w, "tls.cert") {
				t.Errorf("got warning %q", w)
			}
		}
	}
}

func TestSecretStaysOutOfMessages(t *testing.T) {
	_, err := Load(Sources{ReadFile: noFile, Environ: []string{"FELIX_KAFKA_SASL_PLAIN_USERS=acme:hunter2,broken"}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want a refusal without the password", err)
	}
}

func TestAllowInsecureLetsBind(t *testing.T) {
	l, err := Load(Sources{ReadFile: noFile, Flags: map[string]string{"allow-insecure": "true"}, Environ: []string{
		"FELIX_KAFKA_LISTEN=192.0.2.1:9092", "FELIX_KAFKA_TLS=false", "FELIX_KAFKA_ANONYMOUS_TENANT=t",
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FELIX_ALLOW_INSECURE", "FELIX_KAFKA_ANONYMOUS_TENANT", "FELIX_KAFKA_TLS"} {
		if !strings.Contains(strings.Join(l.Warnings, "\n"), want) {
			t.Errorf("no warning names %s: %q", want, l.Warnings)
		}
	}
}

func TestUnknownVariableWarns(t *testing.T) {
	tests := []struct{ name, variable, want string }{
		{"missing_segment", "FELIX_FSYNC_MODE", "FELIX_DURABLE_FSYNC_MODE"},
		{"missing_segment_kafka", "FELIX_KAFKA_CONNECTIONS", "FELIX_KAFKA_MAX_CONNECTIONS"},
		{"misspelling", "FELIX_KAFKA_LISTN", "FELIX_KAFKA_LISTEN"},
		{"nothing_near", "FELIX_ZZZZ", "has no effect"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Load(Sources{ReadFile: noFile, Environ: []string{tt.variable + "=1"}})
			if err != nil {
				t.Fatal(err)
			}
			if len(l.Warnings) != 1 || !strings.HasPrefix(l.Warnings[0], tt.variable+" is not a setting") || !strings.Contains(l.Warnings[0], tt.want) {
				t.Errorf("got %q, want one warning that names %s and %s", l.Warnings, tt.variable, tt.want)
			}
		})
	}
	l, err := Load(Sources{ReadFile: noFile, Environ: []string{"FELIX_CACHE_CONN_POOL=1", "FELIX_BROKERS=a:1"}})
	if err != nil || len(l.Warnings) != 0 {
		t.Errorf("got %q, %v for variables of clients, want no warning", l.Warnings, err)
	}
}

// TestPrintRoundTrip reads what --print-config printed and gets the same configuration.
func TestPrintRoundTrip(t *testing.T) {
	env := []string{"FELIX_KAFKA_SASL_PLAIN_USERS=acme:hunter2", "FELIX_KAFKA_TLS=false", "FELIX_KAFKA_LISTEN=127.0.0.1:1", "FELIX_LOG=info,log=debug"}
	first, err := Load(Sources{ReadFile: noFile, Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := first.Print(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "<redacted>") {
		t.Errorf("the password is printed:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "listen: 127.0.0.1:1  # environment FELIX_KAFKA_LISTEN") {
		t.Errorf("no origin beside the value:\n%s", out.String())
	}
	second, err := Load(Sources{ConfigFile: "printed", ReadFile: oneFile(out.String()), Environ: env[:2]})
	if err != nil {
		t.Fatalf("the printed configuration does not load: %v\n%s", err, out.String())
	}
	if diff := cmp.Diff(first.Config, second.Config); diff != "" {
		t.Error(diff)
	}
}

// TestSettingsTable keeps the table itself in order: unique names, defaults and profile values that parse and read back.
func TestSettingsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range settings() {
		for _, name := range []string{"key " + s.Key, "env " + s.Env, "flag " + s.Flag} {
			if strings.HasSuffix(name, " ") {
				continue
			}
			if seen[name] {
				t.Errorf("%s appears twice", name)
			}
			seen[name] = true
		}
		if s.Env == "" || !strings.HasPrefix(s.Env, envPrefix) {
			t.Errorf("%s has no FELIX_ variable", s.name())
		}
		if s.Weakens && s.Key != "" {
			t.Errorf("%s weakens something and can stand in a file", s.name())
		}
		if s.Doc == "" || !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s: the description is no sentence", s.name())
		}
		for _, text := range []string{s.Default, s.Profile} {
			if text == "" {
				continue
			}
			var c, again Config
			if err := s.bind(&c).set(text); err != nil {
				t.Errorf("%s: %q does not parse: %v", s.name(), text, err)
				continue
			}
			if err := s.bind(&again).set(s.bind(&c).get()); err != nil {
				t.Errorf("%s: %q does not read back: %v", s.name(), text, err)
			}
			if diff := cmp.Diff(c, again); diff != "" {
				t.Errorf("%s: %s", s.name(), diff)
			}
		}
	}
}

func FuzzConfigFile(f *testing.F) {
	for _, seed := range []string{"", "log: info", "kafka: {listen: 127.0.0.1:0}", "a: [1, {b: c}]", "kafka:\n  listen: &a x\n  b: *a", "? [a]\n: b", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseFile([]byte(text), "f", settings())
		if err != nil {
			return
		}
		known := map[string]bool{}
		for _, s := range settings() {
			known[s.Key] = true
		}
		for key := range values {
			if !known[key] || key == "" {
				t.Errorf("unknown key %q was taken", key)
			}
		}
	})
}

// TestValuesThatFollow: what nobody sets follows from what somebody does, and 0 is the default where the documents say so.
func TestValuesThatFollow(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ []string
		total   int
		frame   int64
	}{
		{"nothing_set", nil, 16384, 16 << 20},
		{"fewer", []string{"FELIX_MAX_SUBSCRIPTIONS_PER_CONN=100"}, 400, 16 << 20},
		{"more", []string{"FELIX_MAX_SUBSCRIPTIONS_PER_CONN=100000"}, 400_000, 16 << 20},
		{"as_many_as_there_are", []string{"FELIX_MAX_SUBSCRIPTIONS_PER_CONN=2147483647", "FELIX_MAX_SUBSCRIPTIONS_PER_CONN_TOTAL=2147483647"}, 2147483647, 16 << 20},
		{"both", []string{"FELIX_MAX_SUBSCRIPTIONS_PER_CONN=100", "FELIX_MAX_SUBSCRIPTIONS_PER_CONN_TOTAL=101"}, 101, 16 << 20},
		{"frame_of_zero", []string{"FELIX_MAX_FRAME_BYTES=0"}, 16384, 16 << 20},
		{"frame", []string{"FELIX_MAX_FRAME_BYTES=1MiB"}, 16384, 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Load(Sources{ReadFile: noFile, Environ: c.environ})
			if err != nil {
				t.Fatal(err)
			}
			if n := l.Config.Native; n.SubscriptionsIn != c.total || n.MaxFrame != c.frame {
				t.Errorf("%d subscriptions in all and frames of %d bytes, want %d and %d", n.SubscriptionsIn, n.MaxFrame, c.total, c.frame)
			}
		})
	}
	if _, err := Load(Sources{ReadFile: noFile, Environ: []string{"FELIX_MAX_FRAME_BYTES=1"}}); err == nil {
		t.Error("a frame of one byte is taken")
	}
}
