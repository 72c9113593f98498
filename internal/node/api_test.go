package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
)

// apiCall does a call and returns its status and JSON answer.
func apiCall(t *testing.T, method, url, body string, header ...string) (int, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return res.StatusCode, out
}

// shardDirs are the directories of streams that have files.
func shardDirs(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "shards", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestAPIOfANode: with the development token a stream is made through the API and used through Kafka, and when its namespace or tenant
// goes, so do its shards and their files.
func TestAPIOfANode(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir)
	base := "http://" + n.Addrs().API + "/v1"
	token := "Bearer " + readToken(t, filepath.Join(dir, "dev", "api-token"))
	want := func(status int, method, path, body string) map[string]any {
		t.Helper()
		got, out := apiCall(t, method, base+path, body, "Authorization", token)
		if got != status {
			t.Fatalf("%s %s: %d %v, want %d", method, path, got, out, status)
		}
		return out
	}
	want(http.StatusOK, http.MethodGet, "/system/ready", "")
	if status, _ := apiCall(t, http.MethodGet, base+"/nodes", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	broker := "Bearer " + readToken(t, filepath.Join(dir, "dev", "token"))
	if status, _ := apiCall(t, http.MethodGet, base+"/nodes", "", "Authorization", broker); status != http.StatusUnauthorized {
		t.Errorf("with the token of the other audience: %d", status)
	}
	if nodes := want(http.StatusOK, http.MethodGet, "/nodes", "")["items"].([]any); len(nodes) != 1 {
		t.Errorf("nodes %v", nodes)
	}

	before := len(shardDirs(t, dir))
	for _, round := range []struct{ namespace, remove string }{
		{"default", "/tenants/default/namespaces/default/streams/orders"},
		{"more", "/tenants/default/namespaces/more"},
	} {
		if round.namespace != "default" {
			want(http.StatusCreated, http.MethodPost, "/tenants/default/namespaces", `{"namespace":"more"}`)
		}
		streams := "/tenants/default/namespaces/" + round.namespace + "/streams"
		topic := "orders"
		if round.namespace != "default" {
			topic = "more.orders"
		}
		want(http.StatusCreated, http.MethodPost, streams, `{"stream":"orders","durable":true,"shards":2}`)
		c := newClient(t, n.Addrs().Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		for p := range int32(2) {
			if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		c.Close()
		if got := len(shardDirs(t, dir)) - before; got != 2 {
			t.Errorf("%d shards have files, want 2", got)
		}
		if items := want(http.StatusOK, http.MethodGet, "/shard-assignments?leader=node-1", "")["items"].([]any); len(items) != 2 {
			t.Errorf("assignments %v", items)
		}
		want(http.StatusNoContent, http.MethodDelete, round.remove, "")
		// The broker follows the metadata; the answer does not wait for its disk.
		deadline := time.NewTimer(testTimeout)
		defer deadline.Stop()
		for len(shardDirs(t, dir)) != before {
			select {
			case <-deadline.C:
				t.Fatalf("files of deleted shards are left: %v", shardDirs(t, dir))
			default:
			}
		}
	}
	if got := want(http.StatusOK, http.MethodGet, "/shard-assignments", "")["items"].([]any); len(got) != 0 {
		t.Errorf("assignments that are left: %v", got)
	}
}

// TestBootstrapOfANode: outside the development profile, the bootstrap token is the way to the first token.
func TestBootstrapOfANode(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir, "FELIX_BOOTSTRAP_ENABLED=true", "FELIX_BOOTSTRAP_BIND_ADDR=127.0.0.1:0", "FELIX_BOOTSTRAP_TOKEN=s3cret", "FELIX_BOOTSTRAP_DEV_TOKENS=1",
		"FELIX_KAFKA_TLS=false", "FELIX_KAFKA_SASL_PLAIN_USERS=acme:password", "FELIX_EXCHANGE_TOKEN_TTL_SECONDS=60")
	url := "http://" + n.Addrs().Bootstrap + "/internal/bootstrap/tenants/acme/dev-token"
	if status, _ := apiCall(t, http.MethodPost, url, `{"principal":"p:a"}`); status != http.StatusUnauthorized {
		t.Errorf("without the bootstrap token: %d", status)
	}
	if status, out := apiCall(t, http.MethodPost, url, `{"principal":"p:a"}`, "X-Felix-Bootstrap-Token", "s3cret"); status != http.StatusNotFound {
		t.Errorf("a tenant without a key: %d %v", status, out)
	}
	first := strings.Replace(url, "dev-token", "initialize", 1)
	status, out := apiCall(t, http.MethodPost, first, `{"display_name":"Acme","initial_admin_principals":["p:a"],"policies":[{"subject":"p:a","object":"namespace:acme/*","action":"ns.manage"}]}`,
		"X-Felix-Bootstrap-Token", "s3cret")
	if want := "http://" + n.Addrs().API + "/v1/tenants/acme/.well-known/jwks.json"; status != http.StatusOK || out["jwks_url"] != want {
		t.Fatalf("initialize: %d %v, want key set %s", status, out, want)
	}
	status, out = apiCall(t, http.MethodPost, url, `{"principal":"p:a","audience":"felix-controlplane"}`, "X-Felix-Bootstrap-Token", "s3cret")
	if status != http.StatusOK || out["expires_in"] != 60. {
		t.Fatalf("%d %v", status, out)
	}
	status, out = apiCall(t, http.MethodPost, "http://"+n.Addrs().API+"/v1/tenants/acme/namespaces", `{"namespace":"n"}`, "Authorization", "Bearer "+out["felix_token"].(string))
	if status != http.StatusCreated {
		t.Errorf("with the development token: %d %v", status, out)
	}
}

// TestAPIIsOff: without addresses nothing is bound.
func TestAPIIsOff(t *testing.T) {
	l, err := Load(Sources{ReadFile: noFile, Flags: map[string]string{
		"data-dir": t.TempDir(), "kafka-listen": "127.0.0.1:0", "native-listen": "", "api-listen": "", "metrics-listen": "",
	}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), l.Config, Options{Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	if n.Addrs().API != "" || n.Addrs().Bootstrap != "" || n.api != nil {
		t.Errorf("addresses %+v", n.Addrs())
	}
	if err := n.Close(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestReadinessOfTheAPI: it falls with the controller.
func TestReadinessOfTheAPI(t *testing.T) {
	n := openTest(t, t.TempDir(), "FELIX_READINESS_CACHE_TTL_MS=1")
	url := "http://" + n.Addrs().API + "/v1/system/"
	if err := n.controller.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.NewTimer(testTimeout)
	defer deadline.Stop()
	for {
		status, out := apiCall(t, http.MethodGet, url+"ready", "")
		if status == http.StatusServiceUnavailable && out["code"] == "unavailable" {
			break
		}
		select {
		case <-deadline.C:
			t.Fatalf("still %d %v", status, out)
		default:
		}
	}
	if status, _ := apiCall(t, http.MethodGet, url+"live", ""); status != http.StatusOK {
		t.Errorf("live: %d", status)
	}
}

// TestBootstrapSettings has row 153 of the security rules among its cases.
func TestBootstrapSettings(t *testing.T) {
	for _, tt := range []struct {
		name    string
		environ []string
		want    string // part of the refusal; "" none
	}{
		{"off", nil, ""},
		{"on", []string{"FELIX_BOOTSTRAP_ENABLED=true", "FELIX_BOOTSTRAP_TOKEN=x"}, ""},
		{"no_token", []string{"FELIX_BOOTSTRAP_ENABLED=true"}, "FELIX_BOOTSTRAP_TOKEN"},
		{"previous_alone", []string{"FELIX_BOOTSTRAP_TOKEN_PREVIOUS=x"}, "previous secret"},
		{"elsewhere", []string{"FELIX_BOOTSTRAP_ENABLED=true", "FELIX_BOOTSTRAP_TOKEN=x", "FELIX_BOOTSTRAP_BIND_ADDR=0.0.0.0:9095"}, "reachable"},
		{"153_dev_tokens_elsewhere", []string{
			"FELIX_ALLOW_INSECURE=true", "FELIX_BOOTSTRAP_ENABLED=true", "FELIX_BOOTSTRAP_TOKEN=x", "FELIX_BOOTSTRAP_DEV_TOKENS=true", "FELIX_BOOTSTRAP_BIND_ADDR=0.0.0.0:9095",
		}, "FELIX_BOOTSTRAP_DEV_TOKENS"},
		{"dev_tokens_alone", []string{"FELIX_BOOTSTRAP_DEV_TOKENS=true"}, "FELIX_BOOTSTRAP_DEV_TOKENS"},
		{"dev_tokens", []string{"FELIX_BOOTSTRAP_ENABLED=true", "FELIX_BOOTSTRAP_TOKEN=x", "FELIX_BOOTSTRAP_DEV_TOKENS=true"}, ""},
		{"no_region", []string{"FELIX_REGION_ID= "}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The other settings are those of a node outside the profile.
			environ := append([]string{"FELIX_KAFKA_TLS=false", "FELIX_KAFKA_SASL_PLAIN_USERS=t:p"}, tt.environ...)
			l, err := Load(Sources{ReadFile: noFile, Environ: environ, Flags: map[string]string{"kafka-listen": "127.0.0.1:0"}})
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want a refusal with %q", err, tt.want)
			}
			if err == nil && l.Config.API.DevTokens && !strings.Contains(strings.Join(l.Warnings, "\n"), "FELIX_BOOTSTRAP_DEV_TOKENS") {
				t.Errorf("no warning: %q", l.Warnings)
			}
		})
	}
}

// TestAPITokensSurviveRestarts: the key that the development tokens are signed with is kept, and a token of before is still taken.
func TestAPITokensSurviveRestarts(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir)
	token := readToken(t, filepath.Join(dir, "dev", "api-token"))
	if err := n.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, dir)
	status, out := apiCall(t, http.MethodGet, "http://"+n.Addrs().API+"/v1/tenants/default/signing-keys", "", "Authorization", "Bearer "+token)
	said, err := auth.Look(token)
	if err != nil || status != http.StatusOK || out["current"] != said.KeyID {
		t.Errorf("%d %v, %v", status, out, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "dev", "signing-key.pem")); errors.Is(err, os.ErrNotExist) {
		t.Error("no development key is kept")
	}
}

// TestRow143: with TLS the bootstrap listener takes nobody without a certificate, before it reads a token.
func TestRow143(t *testing.T) {
	dir := t.TempDir()
	cert := developmentCert{filepath.Join(dir, "bootstrap")}
	if err := cert.issue([]string{"localhost"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	ca, err := newAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	caFile := filepath.Join(dir, "clients.pem")
	if err := writeSynced(caFile, pemBlock("CERTIFICATE", ca.cert.Raw)); err != nil {
		t.Fatal(err)
	}
	settings := []string{
		"FELIX_BOOTSTRAP_ENABLED=true", "FELIX_BOOTSTRAP_BIND_ADDR=127.0.0.1:0", "FELIX_BOOTSTRAP_TOKEN=s3cret", "FELIX_KAFKA_TLS=false",
		"FELIX_BOOTSTRAP_TLS_CERT=" + cert.cert(), "FELIX_BOOTSTRAP_TLS_KEY=" + cert.key(), "FELIX_BOOTSTRAP_TLS_CLIENT_CA=" + caFile,
	}
	if _, err := Load(Sources{ReadFile: noFile, Environ: settings[:len(settings)-1]}); err == nil || !strings.Contains(err.Error(), "all three or none") {
		t.Errorf("two of three: %v", err)
	}
	n := openTest(t, filepath.Join(dir, "data"), settings...)
	text, err := os.ReadFile(cert.ca())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	call := func(certs ...tls.Certificate) (*http.Response, error) {
		client := &http.Client{Timeout: testTimeout, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: certs},
		}}
		url := "https://" + n.Addrs().Bootstrap + "/internal/bootstrap/tenants/acme/initialize"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"display_name":"A","initial_admin_principals":["p:a"]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Felix-Bootstrap-Token", "s3cret")
		return client.Do(req)
	}
	if resp, err := call(); err == nil {
		_ = resp.Body.Close()
		t.Errorf("without a certificate: status %d", resp.StatusCode)
	}
	stranger, err := newAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := call(clientCertificate(t, stranger, "p:a")); err == nil {
		_ = resp.Body.Close()
		t.Errorf("with a certificate of somebody else's authority: status %d", resp.StatusCode)
	}
	if n.controller.Image().Tenant("acme") != nil {
		t.Error("the tenant was made")
	}
	resp, err := call(clientCertificate(t, ca, "p:a"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with a certificate: status %d", resp.StatusCode)
	}
}
