package node

import (
	"net"
	"strings"
	"testing"
)

func TestGreeting(t *testing.T) {
	tests := []struct {
		name  string
		addrs Addresses
		want  []string
		not   string
	}{
		{
			"usual",
			Addresses{Kafka: "127.0.0.1:9092", Metrics: "127.0.0.1:8080"},
			[]string{"metrics   http://127.0.0.1:8080/metrics", "kcat -b 127.0.0.1:9092", "tenant default"},
			"--brokers",
		},
		{
			"native_and_api",
			Addresses{Kafka: "127.0.0.1:9092", Native: "127.0.0.1:5000", API: "127.0.0.1:8443"},
			[]string{
				"native    127.0.0.1:5000   (QUIC; CA certificate data/dev/ca.pem, token data/dev/token)\n", "API       http://127.0.0.1:8443   (token data/dev/api-token)\n",
				`"Authorization: Bearer $(cat data/dev/api-token)"`, "http://127.0.0.1:8443/v1/tenants/default/namespaces/default/streams",
			},
			"https://",
		},
		{"no_kafka", Addresses{Native: "127.0.0.1:5000"}, []string{"native    127.0.0.1:5000"}, "kcat"},
		{"metrics_off", Addresses{Kafka: "127.0.0.1:9092"}, []string{"metrics   off\n"}, "http://"},
		{"metrics_on_every_address", Addresses{Kafka: "127.0.0.1:1", Metrics: "0.0.0.0:8080"}, []string{"http://127.0.0.1:8080/metrics", "--brokers 127.0.0.1:1"}, "0.0.0.0"},
		{"metrics_on_every_address_of_ipv6", Addresses{Kafka: "127.0.0.1:1", Metrics: "[::]:8080"}, []string{"http://[::1]:8080/metrics"}, "[::]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			greet(&out, tt.addrs, &Config{DataDir: "data", Kafka: KafkaConfig{AnonymousTenant: "default", DefaultNamespace: "default"}})
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got %s, want %q in it", out.String(), want)
				}
			}
			if strings.Contains(out.String(), tt.not) {
				t.Errorf("got %s, want no %q in it", out.String(), tt.not)
			}
		})
	}
}

// TestListenIsWhatWasWritten: 0.0.0.0 is not every address of IPv6 as well.
func TestListenIsWhatWasWritten(t *testing.T) {
	ln, err := listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if host, _, err := net.SplitHostPort(ln.Addr().String()); err != nil || host != "0.0.0.0" {
		t.Errorf("got %s, %v, want 0.0.0.0", ln.Addr(), err)
	}
}
