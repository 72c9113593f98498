package node

import (
	"strings"
	"testing"
)

// TestRows147To154 are the rows of the security rules about start-up, by number: what is refused, and for row 148 what is said.
func TestRows147To154(t *testing.T) {
	file := func(text string) Sources { return Sources{ConfigFile: "f.yml", ReadFile: oneFile(text)} }
	env := func(list ...string) Sources {
		return Sources{Environ: append([]string{"FELIX_KAFKA_SASL_PLAIN_USERS=t:p"}, list...), ReadFile: noFile}
	}
	bootstrap := []string{"FELIX_BOOTSTRAP_ENABLED=true", "FELIX_BOOTSTRAP_TOKEN=x", "FELIX_BOOTSTRAP_DEV_TOKENS=true"}
	for _, tt := range []struct {
		name string
		src  Sources
		want string // part of the refusal
	}{
		{"147_unknown_key", file("kafkaa: {listen: 127.0.0.1:1}"), "unknown key kafkaa"},
		{"147_unknown_key_inside", file("kafka:\n  lisen: 127.0.0.1:1"), "unknown key kafka.lisen"},
		{"149_certificate_without_key", env("FELIX_TLS_CERT=c.pem"), "tls.cert and tls.key go together"},
		{"149_key_without_certificate", env("FELIX_TLS_KEY=k.pem"), "tls.cert and tls.key go together"},
		{"149_api_certificate_without_key", env("FELIX_CONTROLPLANE_TLS_CERT=c.pem"), "api_tls_cert and api_tls_key go together"},
		{"149_client_ca_without_certificate", env("FELIX_TLS_CLIENT_CA=ca.pem", "FELIX_QUIC_BIND=127.0.0.1:0"), "there is no tls.cert"},
		{"149_binding_without_client_ca", env("FELIX_TLS_CERT=c", "FELIX_TLS_KEY=k", "FELIX_TLS_CLIENT_CERT_BIND_SUBJECT=1"), "needs tls.client_ca"},
		// A member of a cluster is a node without a controller of its own, which this release is not: what it would lack is not looked at.
		{"150_broker_alone", Sources{Environ: []string{"FELIX_KAFKA_SASL_PLAIN_USERS=t:p"}, Flags: map[string]string{"roles": "broker", "node-id": "n1"}, ReadFile: noFile}, "runs a single node"},
		{"150_controller_alone", Sources{Environ: []string{"FELIX_KAFKA_SASL_PLAIN_USERS=t:p"}, Flags: map[string]string{"roles": "controller"}, ReadFile: noFile}, "runs a single node"},
		{"150_node_id", Sources{Flags: map[string]string{"node-id": "a/b"}, ReadFile: noFile}, "must be a name"},
		{"151_peer_and_kafka", env("FELIX_INTERNAL_BIND=127.0.0.1:9092", "FELIX_KAFKA_LISTEN=127.0.0.1:9092"), "peer_bind and kafka.listen are both on port 9092"},
		{"151_peer_and_native", env("FELIX_INTERNAL_BIND=0.0.0.0:5000", "FELIX_QUIC_BIND=127.0.0.1:5000"), "peer_bind and native.listen are both on port 5000"},
		{"152_quota_of_a_tenant_twice", env("FELIX_TENANT_PUBLISH_QUOTAS=a:1:0,b:0:0,a:2:0"), `tenant "a" appears twice`},
		{"153_development_tokens_elsewhere", env(append(bootstrap, "FELIX_ALLOW_INSECURE=true", "FELIX_BOOTSTRAP_BIND_ADDR=0.0.0.0:9095")...), "FELIX_BOOTSTRAP_DEV_TOKENS"},
		{"153_development_tokens_without_bootstrap", env("FELIX_BOOTSTRAP_DEV_TOKENS=true"), "FELIX_BOOTSTRAP_DEV_TOKENS"},
		{"154_export_beside_a_certificate", env("FELIX_TLS_CERT=c", "FELIX_TLS_KEY=k", "FELIX_TLS_CERT_EXPORT=e"), "tls.cert_export"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if l, err := Load(tt.src); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v, want a refusal with %q", l, err, tt.want)
			}
		})
	}
	t.Run("148_unknown_variable", func(t *testing.T) {
		l, err := Load(env("FELIX_KAFKA_LISTN=127.0.0.1:1"))
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(l.Warnings, "\n"); !strings.Contains(all, "FELIX_KAFKA_LISTN is not a setting") || !strings.Contains(all, "FELIX_KAFKA_LISTEN") {
			t.Errorf("warnings %q", l.Warnings)
		}
	})
	for name, src := range map[string]Sources{
		"151_ports_of_their_own":  env("FELIX_INTERNAL_BIND=127.0.0.1:7000", "FELIX_KAFKA_LISTEN=127.0.0.1:9092"),
		"151_ports_to_be_picked":  env("FELIX_INTERNAL_BIND=127.0.0.1:0", "FELIX_KAFKA_LISTEN=127.0.0.1:0"),
		"153_development_tokens":  env(bootstrap...),
		"149_certificate_and_key": env("FELIX_TLS_CERT=c", "FELIX_TLS_KEY=k", "FELIX_TLS_CLIENT_CA=ca", "FELIX_TLS_CLIENT_CERT_BIND_SUBJECT=1"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(src); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}
