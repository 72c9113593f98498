package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/controller/storetest"
	"github.com/felixlog/felix/internal/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(everyStatus{m}) }

// began is the rig's clock, which stands still.
var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// The tenants of a rig: operators, two customers, and one without signing keys.
const (
	ops   = "ops"
	acme  = "acme"
	other = "other"
	bare  = "bare"
)

// rig is a server over a real state machine, with one live node.
type rig struct {
	t        *testing.T
	store    *storetest.Memory
	c        *controller.Controller
	s        *Server
	registry *prometheus.Registry
	now      time.Time
}

// imageKeys are the tenants' keys in the newest image.
type imageKeys struct{ c *controller.Controller }

func (k imageKeys) Keys(_ context.Context, tenant string) ([]auth.Key, error) {
	t := k.c.Image().Tenant(tenant)
	if t == nil {
		return nil, auth.ErrUnknownTenant
	}
	return publishedKeys(t), nil
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, registry: prometheus.NewRegistry(), now: began}
	var err error
	r.c, err = controller.Open(t.Context(), controller.Options{Tenant: bare, Store: func(ctx context.Context, m controller.Machine, first [][]byte) (controller.Store, error) {
		s, err := storetest.OpenMemory(ctx, m, first)
		if err == nil {
			r.store = s.(*storetest.Memory)
		}
		return s, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.propose(cluster.RegisterNode{ID: "node-1", KafkaHost: "127.0.0.1", KafkaPort: 9092})
	for i, name := range []string{ops, acme, other} {
		r.propose(cluster.CreateTenant{Name: name, Key: cluster.KeyFromSeed([]byte(fmt.Sprintf("%032d", i)))})
		r.propose(cluster.CreateNamespace{Tenant: name, Name: "ns"})
	}
	verifier, err := auth.NewVerifier(auth.VerifierOptions{
		Audience: auth.AudienceControlPlane, Keys: imageKeys{r.c}, Now: func() time.Time { return r.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Controller: r.c, Verifier: verifier, Registerer: r.registry, Now: func() time.Time { return r.now },
		Bootstrap: BootstrapOptions{Token: "secret", Previous: "old secret", DevTokens: true, Permissions: func(tenant string) ([]auth.Permission, error) {
			return auth.ParsePermissions([]string{"tenant.manage:tenant:" + tenant, "node.view:cluster:*"})
		}},
	}
	for _, f := range change {
		f(&opts)
	}
	if r.s, err = New(opts); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) propose(cmd cluster.Command) cluster.Result {
	r.t.Helper()
	res, err := r.c.Propose(r.t.Context(), cmd)
	if err == nil {
		err = res.Err
	}
	for _, item := range res.Items {
		if err == nil {
			err = item.Err
		}
	}
	if err != nil {
		r.t.Fatalf("%T: %v", cmd, err)
	}
	return res
}

// claims are those of a token that is good for the API.
func (r *rig) claims(tenant string, permissions ...string) auth.Claims {
	r.t.Helper()
	list, err := auth.ParsePermissions(permissions)
	if err != nil {
		r.t.Fatal(err)
	}
	return auth.Claims{
		Tenant: tenant, Principal: "p:test", Audience: auth.AudienceControlPlane, Permissions: list,
		Issued: r.now, Expires: r.now.Add(time.Hour),
	}
}

// sign makes a token of claims with a tenant's own key.
func (r *rig) sign(c auth.Claims, tenant string) string {
	r.t.Helper()
	k, ok := r.c.Image().Tenant(tenant).CurrentKey()
	if !ok {
		r.t.Fatalf("tenant %s has no key", tenant)
	}
	signer, err := auth.NewSigner(k.ID, k.Seed)
	if err != nil {
		r.t.Fatal(err)
	}
	token, err := auth.Mint(c, signer)
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

func (r *rig) token(tenant string, permissions ...string) string {
	r.t.Helper()
	return r.sign(r.claims(tenant, permissions...), tenant)
}

// admin is a token with every right in a tenant.
func (r *rig) admin(tenant string) string {
	r.t.Helper()
	return r.token(tenant, "tenant.manage:tenant:"+tenant)
}

// operator is a token with every right on the cluster.
func (r *rig) operator() string {
	r.t.Helper()
	return r.token(ops, "tenant.manage:cluster:*", "node.view:cluster:*", "node.manage:cluster:*")
}

type response struct {
	status int
	header http.Header
	text   string
	body   map[string]any // of an answer that is an object
	list   []any          // of one that is a list
}

// code is the code of a refusal.
func (r response) code() string { s, _ := r.body["code"].(string); return s }

func (r response) String() string { return fmt.Sprintf("%d %s", r.status, r.text) }

// send sends a request as it is.
func (r *rig) send(req *http.Request) response {
	r.t.Helper()
	return r.sendTo(r.s.httpAPI.Handler, req)
}

func (r *rig) sendTo(h http.Handler, req *http.Request) response {
	r.t.Helper()
	sent, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Body = io.NopCloser(bytes.NewReader(sent))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	out := response{status: w.Code, header: w.Header(), text: strings.TrimSpace(w.Body.String())}
	if out.text != "" {
		var to any = &out.body
		if strings.HasPrefix(out.text, "[") {
			to = &out.list
		}
		if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
			r.t.Fatalf("%s %s answers %q: %v", req.Method, req.URL, out.text, err)
		}
	}
	r.holdAgainstDocument(req, sent, out)
	return out
}

// request makes a request with a token ("": none) and a JSON body ("": none).
func request(method, path, token, body string) *http.Request {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

func (r *rig) do(method, path, token, body string) response {
	r.t.Helper()
	return r.send(request(method, path, token, body))
}

// want does a request and wants a status.
func (r *rig) want(status int, method, path, token, body string) response {
	r.t.Helper()
	res := r.do(method, path, token, body)
	if res.status != status {
		r.t.Errorf("%s %s %.200s: got %s, want %d", method, path, body, res, status)
	}
	return res
}

// counter reads one counter.
func (r *rig) counter(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetValue())
			}
			if strings.Join(got, ",") == strings.Join(labels, ",") {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

const nsPath = "/v1/tenants/acme/namespaces/ns"
