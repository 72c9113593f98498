package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/felixlog/felix/auth"
)

// bootstrap does a call of the bootstrap listener.
func (r *rig) bootstrap(path, secret, body string) response {
	r.t.Helper()
	req := request(http.MethodPost, path, "", body)
	if secret != "" {
		req.Header.Set(bootstrapHeader, secret)
	}
	return r.sendTo(r.s.httpBootstrap.Handler, req)
}

const devTokenPath = "/internal/bootstrap/tenants/acme/dev-token"

// TestRow139And144: with the switch off the route is not there, and never on the API's listener.
func TestRow139And144(t *testing.T) {
	off := newRig(t, func(o *Options) { o.Bootstrap.DevTokens = false })
	for _, secret := range []string{"", "secret", "wrong"} {
		if res := off.bootstrap(devTokenPath, secret, `{"principal":"p:a"}`); res.status != http.StatusNotFound {
			t.Errorf("switched off: %s", res)
		}
	}
	on := newRig(t)
	on.want(http.StatusNotFound, http.MethodPost, devTokenPath, on.operator(), `{"principal":"p:a"}`)
	req := request(http.MethodGet, "/v1/system/live", "", "")
	if res := on.sendTo(on.s.httpBootstrap.Handler, req); res.status != http.StatusNotFound {
		t.Errorf("the API on the bootstrap listener: %s", res)
	}
}

// TestRow140: missing and wrong are turned away, the previous token counts.
func TestRow140(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		secret string
		status int
		reason string
	}{
		{"", http.StatusUnauthorized, rejectMissing},
		{"wrong", http.StatusUnauthorized, rejectInvalid},
		{"secre", http.StatusUnauthorized, rejectInvalid},
		{"secret ", http.StatusUnauthorized, rejectInvalid},
		{"secret", http.StatusOK, reasonOK},
		{"old secret", http.StatusOK, reasonOK},
	} {
		outcome := outcomeRefused
		if c.status == http.StatusOK {
			outcome = outcomeOK
		}
		before := r.counter("felix_bootstrap_attempts_total", outcome, c.reason)
		res := r.bootstrap(devTokenPath, c.secret, `{"principal":"p:a"}`)
		if res.status != c.status {
			t.Errorf("token %q: %s, want %d", c.secret, res, c.status)
		}
		if got := r.counter("felix_bootstrap_attempts_total", outcome, c.reason) - before; got != 1 {
			t.Errorf("token %q is not counted as %s %s", c.secret, outcome, c.reason)
		}
		if strings.Contains(res.text, "secret") {
			t.Errorf("the answer shows a secret: %s", res)
		}
	}
	twice := request(http.MethodPost, devTokenPath, "", `{"principal":"p:a"}`)
	twice.Header[bootstrapHeader] = []string{"secret", "secret"}
	if res := r.sendTo(r.s.httpBootstrap.Handler, twice); res.status != http.StatusUnauthorized {
		t.Errorf("two tokens: %s", res)
	}
	none := newRig(t, func(o *Options) { o.Bootstrap.Token, o.Bootstrap.Previous = "", "" })
	if res := none.bootstrap(devTokenPath, "", `{"principal":"p:a"}`); res.status != http.StatusUnauthorized {
		t.Errorf("no token is configured: %s", res)
	}
}

func TestDevToken(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Bootstrap.TokenTTL = 10 * time.Minute })
	res := r.bootstrap(devTokenPath, "secret", `{"principal":"p:alice","audience":"felix-controlplane"}`)
	if res.status != http.StatusOK || res.body["token_type"] != "Bearer" || res.body["expires_in"] != 600. || len(res.body) != 3 {
		t.Fatalf("got %s", res)
	}
	token, _ := res.body["felix_token"].(string)
	r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", token, `{"stream":"s"}`)
	r.want(http.StatusOK, http.MethodGet, "/v1/nodes", token, "")
	r.want(http.StatusForbidden, http.MethodGet, "/v1/tenants", token, "")
	said, err := auth.Look(token)
	if err != nil || said.Principal != "p:alice" || said.Tenant != acme || !said.Expires.Equal(began.Add(10*time.Minute)) {
		t.Errorf("%+v, %v", said, err)
	}
	r.now = began.Add(10*time.Minute + 61*time.Second)
	r.want(http.StatusUnauthorized, http.MethodGet, nsPath+"/streams", token, "")
	r.now = began

	broker, _ := r.bootstrap(devTokenPath, "secret", `{"principal":"p:alice"}`).body["felix_token"].(string)
	if said, err := auth.Look(broker); err != nil || said.Audience != auth.AudienceBroker {
		t.Errorf("%+v, %v", said, err)
	}
	r.want(http.StatusUnauthorized, http.MethodGet, nsPath+"/streams", broker, "")

	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/internal/bootstrap/tenants/nobody/dev-token", `{"principal":"p:a"}`, http.StatusNotFound},
		{"/internal/bootstrap/tenants/bare/dev-token", `{"principal":"p:a"}`, http.StatusNotFound},
		{devTokenPath, `{}`, http.StatusBadRequest},
		{devTokenPath, `{"principal":""}`, http.StatusBadRequest},
		{devTokenPath, `{"principal":"p:a","audience":"other"}`, http.StatusBadRequest},
		{devTokenPath, `{"principal":"p:a","permissions":[]}`, http.StatusBadRequest},
		{devTokenPath, `{"principal":"p:a","permissions":["x"],"requested":["stream.publish"]}`, http.StatusBadRequest},
		{devTokenPath, `{"principal":"p:a","permissions":["x"],"requested":[],"resources":[]}`, http.StatusBadRequest},
		{devTokenPath, `{"principal":"p:a","requested":"stream.publish"}`, http.StatusBadRequest},
		{devTokenPath, `{"principal":"p:a","requested":[]}`, http.StatusForbidden},
		{devTokenPath, `{"principal":"p:a","resources":["stream:other/ns/s","stream:acme/ns/s/*"]}`, http.StatusForbidden},
	} {
		if res := r.bootstrap(c.path, "secret", c.body); res.status != c.status {
			t.Errorf("%s %s: %s, want %d", c.path, c.body, res, c.status)
		}
	}
}

// TestNarrowing: what is asked for is cut down and never added to.
func TestNarrowing(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"one_action", `"requested":["stream.publish"]`, []string{"stream.publish:stream:acme/*/*"}},
		{"tenant_alone", `"requested":["tenant.manage"]`, []string{"tenant.manage:tenant:acme"}},
		{"unknown_action", `"requested":["stream.publish","no.such"]`, []string{"stream.publish:stream:acme/*/*"}},
		{"one_stream", `"requested":["stream.publish","stream.subscribe"],"resources":["stream:acme/ns/s"]`, []string{"stream.publish:stream:acme/ns/s", "stream.subscribe:stream:acme/ns/s"}},
		{"one_namespace", `"requested":["stream.publish","ns.manage"],"resources":["namespace:acme/ns"]`, []string{"ns.manage:namespace:acme/ns", "stream.publish:stream:acme/ns/*"}},
		{"wider_resource", `"requested":["stream.publish"],"resources":["tenant:acme"]`, []string{"stream.publish:stream:acme/*/*"}},
		{"cache_key", `"requested":["cache.read"],"resources":["cache:acme/ns/c/k*"]`, []string{"cache.read:cache:acme/ns/c/k*"}},
		{"cluster", `"resources":["cluster:*"]`, []string{"node.view:cluster:*"}},
		{"pairs", `"requested":[],"permissions":["stream.publish:stream:acme/ns/s","node.view:cluster:*","node.manage:cluster:*","stream.publish:stream:other/ns/s","rubbish"]`, []string{"node.view:cluster:*", "stream.publish:stream:acme/ns/s"}},
		{"wider_pair", `"requested":[],"permissions":["ns.manage:namespace:acme/*"]`, []string{"ns.manage:namespace:acme/*"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := r.bootstrap(devTokenPath, "secret", `{"principal":"p:a",`+c.body+`}`)
			token, _ := res.body["felix_token"].(string)
			said, err := auth.Look(token)
			if err != nil {
				t.Fatalf("%s: %v", res, err)
			}
			slices.Sort(said.Permissions)
			if diff := cmp.Diff(c.want, said.Permissions); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNarrowingNeverWidens tries pairs of rights and resources: whatever is left lies inside both.
func TestNarrowingNeverWidens(t *testing.T) {
	rights := []string{
		"tenant.manage:tenant:acme", "ns.manage:namespace:acme/ns", "stream.publish:stream:acme/*/*", "stream.publish:stream:acme/ns/*", "stream.manage:stream:acme/ns/s",
		"cache.read:cache:acme/ns/*", "cache.read:cache:acme/ns/c/k*", "cache.read:cache:acme/ns/c/key", "group.consume:group:acme/ns/s/*", "group.consume:group:acme/ns/*/*",
		"group.consume:stream:acme/ns/*", "node.view:cluster:*", "node.manage:node:n1", "node.manage:cluster:*",
	}
	objects := []string{
		"tenant:acme", "tenant:other", "namespace:acme/ns", "namespace:acme/*", "namespace:acme/n2", "stream:acme/*/*", "stream:acme/ns/*", "stream:acme/ns/s", "stream:acme/ns/t",
		"cache:acme/ns/c", "cache:acme/ns/c/key", "cache:acme/ns/c/k*", "cache:acme/ns/c/x*", "group:acme/ns/s/g", "group:acme/ns/s/*", "cluster:*", "node:n1", "node:n2",
	}
	for _, right := range rights {
		p, err := auth.ParsePermission(right)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			o, err := auth.ParseObject(object)
			if err != nil {
				t.Fatal(err)
			}
			cut(p, o, func(left auth.Permission) {
				if left.Action != p.Action || !contains(p.Object, left.Object) || !contains(o, left.Object) {
					t.Errorf("%s cut to %s leaves %s", right, object, left)
				}
				if _, err := auth.ParsePermission(left.String()); err != nil {
					t.Errorf("%s cut to %s: %v", right, object, err)
				}
			})
		}
	}
}

// TestSecretsStay: no answer of any route holds a seed or a token that was sent.
func TestSecretsStay(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, func(o *Options) {
		o.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.DebugLevel))
	})
	operator, admin := r.operator(), r.admin(acme)
	r.bootstrap(devTokenPath, "secret", `{"principal":"p:a"}`)
	r.bootstrap(devTokenPath, "secret but wrong", `{"principal":"p:a"}`)
	r.do(http.MethodGet, "/v1/nodes", operator+"x", "")
	r.do(http.MethodGet, "/v1/tenants/other/namespaces", admin, "")
	defer func() {
		if log.Len() == 0 {
			t.Error("nothing is logged")
		}
		for _, secret := range []string{operator, admin, "secret", "000000000000"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log shows %.20s: %s", secret, log.String())
			}
		}
	}()
	for _, rt := range apiRoutes {
		path := strings.NewReplacer("{tenant}", acme, "{namespace}", "ns", "{stream}", "s", "{kid}", "k", "{node}", "node-1").Replace(rt.path)
		for _, token := range []string{operator, admin} {
			if rt.method == http.MethodDelete {
				continue
			}
			res := r.do(rt.method, path, token, `{"tenant_id":"t","namespace":"x","stream":"s"}`)
			if strings.Contains(res.text, token) || strings.Contains(res.text, "000000000000") {
				t.Errorf("%s %s: %s", rt.method, path, res)
			}
		}
	}
	if _, err := json.Marshal(r.c.Image().Tenant(acme)); err == nil {
		t.Error("a tenant with its keys has a JSON form")
	}
}

func initializePath(tenant string) string {
	return "/internal/bootstrap/tenants/" + tenant + "/initialize"
}

const initializeText = `{"display_name":"New","initial_admin_principals":["p:a"],"policies":[{"subject":"p:op","object":"cluster:*","action":"node.view"}],` +
	`"groupings":[{"user":"p:b","role":"role:tenant-admin"}]}`

// TestInitialize takes a tenant from nothing to a token that its first administrator may use.
func TestInitialize(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Bootstrap.APIURL = "https://api.example:8443" })
	for _, secret := range []string{"", "wrong"} {
		if res := r.bootstrap(initializePath("new"), secret, initializeText); res.status != http.StatusUnauthorized || r.c.Image().Tenant("new") != nil {
			t.Errorf("bootstrap token %q: %s", secret, res)
		}
	}
	res := r.bootstrap(initializePath("new"), "secret", initializeText)
	k, _ := r.c.Image().Tenant("new").CurrentKey()
	want := map[string]any{"tenant_id": "new", "kid": k.ID, "jwks_url": "https://api.example:8443/v1/tenants/new/.well-known/jwks.json"}
	if res.status != http.StatusOK || k.ID == "" || !cmp.Equal(res.body, want) {
		t.Fatalf("got %s, want %v", res, want)
	}
	token := func(principal string) string {
		res := r.bootstrap("/internal/bootstrap/tenants/new/dev-token", "secret", `{"principal":"`+principal+`","audience":"felix-controlplane"}`)
		s, _ := res.body["felix_token"].(string)
		return s
	}
	for _, admin := range []string{"p:a", "p:b"} {
		r.want(http.StatusOK, http.MethodGet, "/v1/tenants/new/signing-keys", token(admin), "")
		r.want(http.StatusForbidden, http.MethodGet, "/v1/nodes", token(admin), "")
	}
	r.want(http.StatusOK, http.MethodGet, "/v1/nodes", token("p:op"), "")
	r.want(http.StatusForbidden, http.MethodGet, "/v1/tenants/new/signing-keys", token("p:op"), "")

	// One that is there already, without a key and with one.
	if res := r.bootstrap(initializePath(bare), "secret", initializeText); res.status != http.StatusOK {
		t.Errorf("a tenant without a key: %s", res)
	}
	before, _ := r.c.Image().Tenant(acme).CurrentKey()
	if res := r.bootstrap(initializePath(acme), "secret", initializeText); res.status != http.StatusOK || res.body["kid"] != before.ID {
		t.Errorf("a tenant with a key: %s, want key %s", res, before.ID)
	}
	relative := newRig(t)
	if res := relative.bootstrap(initializePath("new"), "secret", initializeText); res.body["jwks_url"] != "/v1/tenants/new/.well-known/jwks.json" {
		t.Errorf("without an address of the API: %s", res)
	}
}

// TestRow141: of many calls at once one succeeds.
func TestRow141(t *testing.T) {
	r := newRig(t)
	const calls = 8
	results := make(chan response, calls)
	for range calls {
		go func() { results <- r.bootstrap(initializePath("new"), "secret", initializeText) }()
	}
	succeeded := 0
	for range calls {
		switch res := <-results; {
		case res.status == http.StatusOK:
			succeeded++
		case res.status != http.StatusConflict || res.body["code"] != "already_initialized":
			t.Errorf("got %s", res)
		}
	}
	if succeeded != 1 || len(r.c.Image().Tenant("new").Keys) != 1 {
		t.Errorf("%d succeeded, and the tenant has %d keys", succeeded, len(r.c.Image().Tenant("new").Keys))
	}
}

// TestRow142: what is refused leaves the tenant as it was, so that it can be tried again. Row 139: without the development switch only this
// route is there.
func TestRow142(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Bootstrap.DevTokens = false })
	for name, text := range map[string]string{
		"no_name":          `{"initial_admin_principals":["p:a"]}`,
		"blank_name":       `{"display_name":" ","initial_admin_principals":["p:a"]}`,
		"no_admins":        `{"display_name":"N"}`,
		"empty_admins":     `{"display_name":"N","initial_admin_principals":[]}`,
		"blank_admin":      `{"display_name":"N","initial_admin_principals":[" "]}`,
		"blank_issuer":     `{"display_name":"N","initial_admin_principals":["p:a"],"idp_issuers":[{"issuer":" "}]}`,
		"any_issuer":       `{"display_name":"N","initial_admin_principals":["p:a"],"idp_issuers":[{"issuer":"https://idp.example"}]}`,
		"another_tenants":  `{"display_name":"N","initial_admin_principals":["p:a"],"policies":[{"subject":"p:a","object":"tenant:acme","action":"tenant.manage"}]}`,
		"unknown_action":   `{"display_name":"N","initial_admin_principals":["p:a"],"policies":[{"subject":"p:a","object":"tenant:new","action":"fly"}]}`,
		"grouping_of_half": `{"display_name":"N","initial_admin_principals":["p:a"],"groupings":[{"user":"p:a"}]}`,
		"no_object":        `[]`,
	} {
		if res := r.bootstrap(initializePath("new"), "secret", text); res.status != http.StatusBadRequest {
			t.Errorf("%s: %s", name, res)
		}
		if r.c.Image().Tenant("new") != nil {
			t.Fatalf("%s: the tenant is there", name)
		}
	}
	if res := r.bootstrap(initializePath("a%20b"), "secret", initializeText); res.status != http.StatusBadRequest {
		t.Errorf("a name that is none: %s", res)
	}
	if res := r.bootstrap(initializePath("new"), "secret", initializeText); res.status != http.StatusOK {
		t.Errorf("tried again: %s", res)
	}
	r.want(http.StatusNotFound, http.MethodPost, initializePath("acme"), r.operator(), initializeText)
}
