package auth

import (
	"crypto/x509"
	"net"
	"net/url"
	"strings"
	"testing"
)

func TestCheckCertificate(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	digest := strings.Repeat("0123456789abcdef", 4)
	tests := []struct {
		name             string
		principal, actor string
		cert             *x509.Certificate
		want             bool
	}{
		{"none", "svc.example", "", nil, false},
		{"empty", "svc.example", "", &x509.Certificate{}, false},
		{"dns", "svc.example", "", &x509.Certificate{DNSNames: []string{"svc.example"}}, true},
		{"dns_wildcard", "svc.example", "", &x509.Certificate{DNSNames: []string{"*.example"}}, true},
		{"row_36_other_dns", "svc.example", "", &x509.Certificate{DNSNames: []string{"other.example"}}, false},
		{"address", "192.0.2.7", "", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 7)}}, true},
		{"uri", digest, "", &x509.Certificate{URIs: []*url.URL{uri("felix:principal:" + digest)}}, true},
		{"uri_with_a_colon", "p:alice", "", &x509.Certificate{URIs: []*url.URL{uri("felix:principal:p:alice")}}, true},
		{"uri_in_another_case", "p:alice", "", &x509.Certificate{URIs: []*url.URL{uri("felix:principal:P:alice")}}, false},
		{"uri_longer", "p:alice", "", &x509.Certificate{URIs: []*url.URL{uri("felix:principal:p:alice2")}}, false},
		{"uri_of_another_kind", "p:alice", "", &x509.Certificate{URIs: []*url.URL{uri("spiffe:principal:p:alice")}}, false},
		{"row_37_actor", "p:alice", "gateway.example", &x509.Certificate{DNSNames: []string{"gateway.example"}}, true},
		{"row_37_neither", "p:alice", "gateway.example", &x509.Certificate{DNSNames: []string{"other.example"}}, false},
		{"no_actor_is_nobody", "p:alice", "", &x509.Certificate{URIs: []*url.URL{uri("felix:principal:")}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := (&Identity{Principal: tt.principal, Actor: tt.actor}).CheckCertificate(tt.cert)
			if (err == nil) != tt.want {
				t.Fatalf("got %v, want it to fit: %v", err, tt.want)
			}
			if err != nil && (ReasonOf(err) != ReasonCertificate || !strings.Contains(err.Error(), "certificate")) {
				t.Errorf("got %v, want a refusal that says so", err)
			}
		})
	}
}
