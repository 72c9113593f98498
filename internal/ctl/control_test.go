package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/felixlog/felix/auth"
)

// development runs a node in the single-node profile with all its listeners and returns the flag that names its context, and its
// directory of development files.
func development(t *testing.T) (config, dev string) {
	t.Helper()
	dir := t.TempDir()
	serveWith(t, dir, map[string]string{"native-listen": "127.0.0.1:0", "api-listen": "127.0.0.1:0"})
	dev = filepath.Join(dir, "dev")
	return "--config=" + filepath.Join(dev, "felixctl.toml"), dev
}

func TestStreamsFromCreateToDelete(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"stream", "ls", c}, "STREAM", "MAX AGE")
	want(t, exitOK, "", []string{"stream", "create", "orders", "--shards", "3", "--retention-secs", "90000", "--consistency", "Quorum", c}, "stream orders is created with 3 shards")
	same := want(t, exitOK, "", []string{"stream", "create", "orders", "--shards", "3", "--retention-secs", "90000", "--consistency", "quorum", "--json", c})
	made := decode[struct {
		streamRow
		Result string
	}](t, same)
	if made.Result != "unchanged" || made.Shards != 3 || !made.Durable || made.Routing != routingModulo || *made.Retention.MaxAgeSeconds != 90000 {
		t.Errorf("got %+v", made)
	}
	want(t, exitRefused, "", []string{"stream", "create", "orders", "--shards", "2", c}, "another configuration", "409 exists", "it has shards 3, not 2; ")
	want(t, exitRefused, "", []string{"stream", "create", "orders", "--shards", "3", "--retention-secs", "90001", "--consistency", "quorum", c},
		": it has retention.max_age_seconds 90000, not 90001\n")
	want(t, exitOK, "", []string{"stream", "create", "positions", "--durable=false", c}, "created")

	want(t, exitOK, "", []string{"stream", "ls", c}, "orders     3", "1d1h", "positions  1", "no", "default")
	list := decode[[]streamRow](t, want(t, exitOK, "", []string{"stream", "ls", "-o", "json", c}))
	if len(list) != 2 || list[0].Stream != "orders" || list[1].Durable {
		t.Errorf("got %+v", list)
	}
	want(t, exitOK, "", []string{"stream", "info", "orders", "--shards", c}, "consistency  quorum", "GENERATION", "node-1", "active")
	info := decode[streamInfo](t, want(t, exitOK, "", []string{"stream", "info", "orders", "--shards", "--json", c}))
	if len(info.ShardList) != 3 || info.ShardList[2].Shard != 2 || info.ShardList[2].Leader != "node-1" {
		t.Errorf("got %+v", info)
	}

	changes := decode[[]fieldChange](t, want(t, exitOK, "", []string{"stream", "set", "orders", "--retention-bytes", "5000", "--delivery", "at-most-once", "--json", c}))
	if len(changes) != 2 || changes[0] != (fieldChange{"retention.max_size_bytes", "default", "5000"}) || changes[1] != (fieldChange{"delivery", "AtLeastOnce", "AtMostOnce"}) {
		t.Errorf("got %+v", changes)
	}
	want(t, exitOK, "", []string{"stream", "set", "orders", "--retention-secs", "default", c}, "retention.max_age_seconds  90000   default")
	if r := decode[streamInfo](t, want(t, exitOK, "", []string{"stream", "info", "orders", "--json", c})).Retention; r.MaxAgeSeconds != nil || r.MaxSizeBytes == nil {
		t.Errorf("a change of one bound changed the other: %+v", r)
	}
	want(t, exitOK, "", []string{"stream", "set", "orders", "--delivery", "at-most-once", c}, "nothing is changed")

	want(t, exitUsage, "", []string{"stream", "rm", "orders", c}, "to delete stream orders with its records (3 shards) for good, say --yes")
	want(t, exitMissing, "", []string{"stream", "rm", "orders", "none", "--yes", c}, "nothing was deleted", "no stream none", "felixctl stream ls")
	want(t, exitOK, "", []string{"stream", "rm", "orders", "positions", "--yes", c}, "orders     deleted", "positions  deleted")
	want(t, exitMissing, "", []string{"stream", "info", "orders", c}, "no stream orders in namespace default")
}

func TestTenantsAndNamespaces(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"namespace", "create", "shop", "--display-name", "The shop", c}, "namespace shop is created")
	want(t, exitRefused, "", []string{"namespace", "create", "shop", c}, "exists")
	want(t, exitOK, "", []string{"namespace", "ls", c}, "shop       The shop")
	want(t, exitOK, "", []string{"stream", "create", "orders", "-n", "shop", c}, "created")
	want(t, exitMissing, "", []string{"stream", "ls", "-n", "none", c}, "namespace none does not exist")
	want(t, exitUsage, "", []string{"namespace", "rm", "shop", c}, "namespace shop with all records of its 1 stream")
	want(t, exitMissing, "", []string{"namespace", "rm", "none", "--yes", c}, "felixctl namespace ls")
	gone := decode[[]removed](t, want(t, exitOK, "", []string{"namespace", "rm", "shop", "--yes", "--json", c}))
	if len(gone) != 1 || !gone[0].Deleted || gone[0].Name != "shop" {
		t.Errorf("got %+v", gone)
	}

	want(t, exitOK, "", []string{"tenant", "create", "acme", "--display-name", "Acme", c}, "tenant acme is created")
	want(t, exitRefused, "", []string{"tenant", "create", "acme", c}, "exists")
	want(t, exitOK, "", []string{"tenant", "ls", c}, "acme     Acme", "default  -")
	want(t, exitOK, "", []string{"tenant", "info", "acme", c}, "display name  Acme")
	if got := decode[tenantRow](t, want(t, exitOK, "", []string{"tenant", "info", "acme", "--json", c})); got != (tenantRow{"acme", "Acme"}) {
		t.Errorf("got %+v", got)
	}
	if got := want(t, exitUsage, "", []string{"tenant", "rm", "acme", c}, "signing keys for good, say --yes"); strings.Contains(got.err, "signing-key.pem") {
		t.Errorf("got %+v", got)
	}
	want(t, exitUsage, "", []string{"tenant", "rm", "default", c}, "the development node's own", "remove signing-key.pem")
	want(t, exitOK, "", []string{"tenant", "rm", "acme", "-y", c}, "deleted")
	want(t, exitMissing, "", []string{"tenant", "info", "acme", c}, "tenant acme does not exist: see felixctl tenant ls")
}

func TestNodesShardsAndStatus(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"stream", "create", "orders", "--shards", "2", c})
	want(t, exitOK, "", []string{"stream", "create", "pairs", c})
	want(t, exitOK, "", []string{"node", "ls", c}, "NODE", "node-1  live")
	nodes := decode[[]placedNode](t, want(t, exitOK, "", []string{"node", "ls", "--json", c}))
	if len(nodes) != 1 || nodes[0].Node.NodeID != "node-1" || !nodes[0].Placement.Eligible {
		t.Errorf("got %+v", nodes)
	}
	if got := decode[[]placedNode](t, want(t, exitOK, "", []string{"node", "ls", "--lifecycle", "down", "--json", c})); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	want(t, exitRefused, "", []string{"node", "ls", "--lifecycle", "happy", c}, "lifecycle must be one of")
	want(t, exitOK, "", []string{"node", "info", "node-1", c}, "lifecycle    live")
	want(t, exitMissing, "", []string{"node", "info", "node-9", c}, "felixctl node ls")

	shards := decode[[]shardRow](t, want(t, exitOK, "", []string{"shard", "ls", "--name", "orders", "--leader", "node-1", "--json", c}))
	if len(shards) != 2 || shards[1].Shard != 1 || shards[1].State != "active" {
		t.Errorf("got %+v", shards)
	}
	want(t, exitOK, "", []string{"shard", "ls", c}, "default  default    stream  pairs   0")
	if got := decode[[]shardRow](t, want(t, exitOK, "", []string{"shard", "ls", "-n", "shop", "--json", c})); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	want(t, exitOK, "", []string{"cluster", "status", c}, "healthy", "1 of 1 live", "under-replicated  0")
	s := decode[clusterStatus](t, want(t, exitOK, "", []string{"cluster", "status", "--json", c}))
	if !s.Healthy || s.Shards.Total != 3 || s.Nodes.Live != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestSigningKeys(t *testing.T) {
	c, _ := development(t)
	before := decode[[]keyRow](t, want(t, exitOK, "", []string{"key", "ls", "--json", c}))
	if len(before) != 1 || before[0].State != keySigning {
		t.Fatalf("got %+v", before)
	}
	made := decode[keyRow](t, want(t, exitOK, "", []string{"key", "create", "--json", c}))
	want(t, exitOK, "", []string{"__complete", "key", "activate", c, ""}, made.ID)
	want(t, exitOK, "", []string{"key", "activate", made.ID, c}, "signs from now on")
	want(t, exitOK, "", []string{"key", "ls", c}, "KEY", made.ID, before[0].ID)
	if got := decode[[]keyRow](t, want(t, exitOK, "", []string{"key", "ls", "--json", c})); got[0] != (keyRow{made.ID, keySigning}) || got[1] != (keyRow{before[0].ID, keyVerifying}) {
		t.Errorf("got %+v", got)
	}
	want(t, exitUsage, "", []string{"key", "rm", before[0].ID, c}, "tokens that it signed are refused", "remove signing-key.pem", "restart the node")
	want(t, exitRefused, "", []string{"key", "rm", made.ID, "--yes", c}, "409")
	want(t, exitMissing, "", []string{"key", "rm", "none", "--yes", c}, "felixctl key ls")
	want(t, exitMissing, "", []string{"key", "activate", "none", c}, "none")
	want(t, exitOK, "", []string{"key", "rm", before[0].ID, "--yes", c}, "deleted")
	want(t, exitRefused, "", []string{"key", "ls", c}, "does not accept the token") // its own key is gone
}

func TestResourceCompletion(t *testing.T) {
	c, _ := development(t)
	for _, name := range []string{"alpha", "beta"} {
		want(t, exitOK, "", []string{"stream", "create", name, c})
	}
	want(t, exitOK, "", []string{"__complete", "stream", "info", c, "al"}, "alpha\n")
	if got := want(t, exitOK, "", []string{"__complete", "stream", "rm", c, "alpha", ""}, "beta\n"); strings.Contains(got.out, "alpha") {
		t.Errorf("got %q", got.out)
	}
	want(t, exitOK, "", []string{"__complete", "namespace", "rm", c, ""}, "default\n")
	want(t, exitOK, "", []string{"__complete", "tenant", "info", c, ""}, "default\n")
	want(t, exitOK, "", []string{"__complete", "node", "info", c, ""}, "node-1\n")
	want(t, exitOK, "", []string{"__complete", "shard", "ls", c, "--leader", ""}, "node-1\n")
	want(t, exitOK, "", []string{"__complete", "stream", "create", c, "x", "--consistency", ""}, "quorum\n")
	want(t, exitOK, "", []string{"__complete", "rbac", "policy", "add", c, "role:x", "stream:a/b/c", ""}, "stream.publish\n")
	// Nobody answers: nothing is offered, and nothing is said.
	if got := want(t, exitOK, "", []string{"__complete", "stream", "info", "--controlplane-url=http://" + nobody(t), "--controlplane-token=x", "--tenant=t", ""}); strings.Contains(got.out, "refused") {
		t.Errorf("got %+v", got)
	}
}

// mint makes a token for the API with the key of a development node.
func mint(t *testing.T, dev string, change func(*auth.Claims), allow ...string) string {
	t.Helper()
	signer, err := readSigner(filepath.Join(dev, "signing-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	claims := auth.Claims{Tenant: "default", Principal: "p:test", Audience: auth.AudienceControlPlane, Issued: time.Now(), Expires: time.Now().Add(time.Hour)}
	if claims.Permissions, err = auth.ParsePermissions(allow); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&claims)
	}
	token, err := auth.Mint(claims, signer)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestControlRefusals: whatever is wrong with the token or the way to the server, the status and the sentence say what it is.
func TestControlRefusals(t *testing.T) {
	c, dev := development(t)
	read, err := os.ReadFile(filepath.Join(dev, "token"))
	if err != nil {
		t.Fatal(err)
	}
	const managing = "stream.manage:stream:default/default/*"
	old := mint(t, dev, func(c *auth.Claims) { c.Issued, c.Expires = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour) }, managing)
	tests := []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"broker_token", []string{"--controlplane-token", strings.TrimSpace(string(read))}, exitRefused, "the token is for audience felix-broker"},
		{"no_felix_token", []string{"--controlplane-token", "secret"}, exitRefused, "no Felix token"},
		{"expired", []string{"--controlplane-token", old}, exitRefused, "has expired at"},
		{"other_tenant", []string{"--tenant", "acme"}, exitRefused, "the token is of tenant default, and --tenant is acme"},
		{"no_right", []string{"--controlplane-token", mint(t, dev, nil, "cache.manage:cache:default/default/*")}, exitRefused, "takes the right stream.manage"},
		{"right", []string{"--controlplane-token", mint(t, dev, nil, managing)}, exitOK, "STREAM"},
		{"missing_file", []string{"--controlplane-token-file", filepath.Join(dev, "none")}, exitUsage, "--controlplane-token-file"},
		{"empty_token", []string{"--controlplane-token", "a b"}, exitUsage, "characters that no token has"},
		{"not_a_url", []string{"--controlplane-url", "127.0.0.1:8443"}, exitUsage, "is not http(s)://host:port"},
		{"nobody", []string{"--controlplane-url", "http://" + nobody(t)}, exitUnreachable, "felix serve"},
		{"half_a_certificate", []string{"--client-cert-file", "x"}, exitUsage, "--client-key-file"},
		{"bad_authority", []string{"--controlplane-ca-file", filepath.Join(dev, "token")}, exitUsage, "holds no certificate"},
		{"bad_timeout", []string{"--timeout", "0s"}, exitUsage, "--timeout must be positive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := want(t, tt.status, "", append([]string{"stream", "ls", c}, tt.args...), tt.want)
			if strings.Contains(got.err, "secret") {
				t.Errorf("the token is told: %s", got.err)
			}
			if tt.status == exitOK {
				return
			}
			if got.out != "" {
				t.Errorf("got %q on standard output of a failure", got.out)
			}
			wantErrorJSON(t, runCtl(t, "", nil, append([]string{"stream", "ls", c, "--json"}, tt.args...)...), tt.status)
		})
	}
	want(t, exitUsage, "", []string{"stream", "ls", "--controlplane-url", "http://" + nobody(t)}, "no token for the control API", "data/dev/felixctl.toml")
}

// wantErrorJSON checks the form of errors for programs: one object on standard error, nothing on standard output.
func wantErrorJSON(t *testing.T, got result, status int) {
	t.Helper()
	var line struct {
		Error string
		Exit  int
	}
	if err := json.Unmarshal([]byte(got.err), &line); err != nil || line.Exit != status || line.Error == "" || got.status != status || got.out != "" {
		t.Errorf("got %+v (%v), want an object with an error and status %d", got, err, status)
	}
}

// TestControlMistakes: what can be seen before a server is asked ends with the status of a mistake.
func TestControlMistakes(t *testing.T) {
	settings := []string{"--controlplane-url=http://" + nobody(t), "--controlplane-token=x", "--tenant=t"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no_names":          {[]string{"namespace", "rm"}, "NAME is missing: felixctl namespace rm NAME..."},
		"extra_word":        {[]string{"stream", "ls", "x"}, "\"x\" is one argument too many: felixctl stream ls (see"},
		"no_name":           {[]string{"stream", "create"}, "NAME is missing: felixctl stream create NAME (see felixctl stream create --help)"},
		"bad_consistency":   {[]string{"stream", "create", "x", "--consistency", "all"}, "none of leader, quorum"},
		"bad_delivery":      {[]string{"stream", "create", "x", "--delivery", "twice"}, "none of at-least-once, at-most-once"},
		"bad_kind":          {[]string{"stream", "create", "x", "--kind", "table"}, "none of stream, queue"},
		"bad_routing":       {[]string{"stream", "create", "x", "--routing", "random"}, "none of modulo, jump_hash"},
		"bad_bound":         {[]string{"stream", "create", "x", "--retention-secs", "0"}, "neither a number above 0, alone or with one of s, m, h, d, w"},
		"bad_bytes":         {[]string{"stream", "set", "x", "--retention-bytes", "1k"}, "--retention-bytes"},
		"nothing_to_set":    {[]string{"stream", "set", "x"}, "nothing to change"},
		"nothing_to_set_2":  {[]string{"cache", "set", "x"}, "nothing to change"},
		"fixed":             {[]string{"stream", "set", "x", "--shards", "2"}, "unknown flag: --shards"},
		"bad_action":        {[]string{"rbac", "policy", "add", "p:a", "stream:t/n/s", "stream.fly"}, "the actions are stream.publish, "},
		"bad_object":        {[]string{"rbac", "policy", "add", "p:a", "river:t/n/s", "stream.publish"}, "does not begin with"},
		"wrong_object":      {[]string{"rbac", "policy", "rm", "p:a", "stream:t/n/s", "tenant.manage"}, "cannot be granted"},
		"no_subject":        {[]string{"rbac", "policy", "add", "", "stream:t/n/s", "stream.publish"}, "subject is empty"},
		"few_arguments":     {[]string{"rbac", "grouping", "add", "p:a"}, "ROLE is missing"},
		"unknown_command":   {[]string{"stream", "lst"}, "did you mean ls"},
		"no_subcommand":     {[]string{"node", "drain", "n"}, "unknown command"},
		"no_namespace_flag": {[]string{"node", "ls", "-n", "x"}, "unknown shorthand"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runCtl(t, "", nil, append(tt.args, settings...)...)
			if got.status != exitUsage || got.out != "" || !strings.Contains(got.err, tt.want) {
				t.Errorf("got %+v, want status %d and %q", got, exitUsage, tt.want)
			}
		})
	}
}

// fakeAPI is a control API of one handler, and the flags that lead to it.
func fakeAPI(t *testing.T, h http.HandlerFunc) []string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return []string{"--controlplane-url=" + s.URL, "--controlplane-token=x", "--tenant=t"}
}

// TestLongListing: ten thousand streams are listed page by page, and the first are out before the last page is asked for.
func TestLongListing(t *testing.T) {
	const total = 10_000
	var requests int
	flags := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || r.Header.Get("Authorization") != "Bearer x" || r.URL.Path != "/v1/tenants/t/namespaces/default/streams" {
			t.Errorf("got %s", r.URL)
		}
		items := []streamRow{}
		for i := from; i < min(from+limit, total); i++ {
			items = append(items, streamRow{Stream: fmt.Sprintf("s%05d", i), Shards: 1})
		}
		page := map[string]any{"items": items}
		if from+limit < total {
			page["next_cursor"] = strconv.Itoa(from + limit)
		}
		_ = json.NewEncoder(w).Encode(page)
	})
	got := want(t, exitOK, "", append([]string{"stream", "ls"}, flags...), "s00000", "s09999")
	if n := strings.Count(got.out, "\n"); n != total+1 || requests != total/pageLimit || strings.Count(got.out, "STREAM") != 1 {
		t.Errorf("got %d lines after %d requests", n, requests)
	}
	if list := decode[[]streamRow](t, want(t, exitOK, "", append([]string{"stream", "ls", "--json"}, flags...))); len(list) != total {
		t.Errorf("got %d", len(list))
	}

	// A reader that has seen enough ends the command without a word.
	for _, form := range []string{"table", "json"} {
		var errs strings.Builder
		requests = 0
		status := Main(t.Context(), Process{Args: append([]string{"stream", "ls", "-o", form}, flags...), Out: &closing{after: 1}, Err: &errs})
		if status != exitOK || errs.String() != "" || requests > 2 {
			t.Errorf("%s: got status %d, %q after %d requests, want a quiet end", form, status, errs.String(), requests)
		}
	}
}

// closing is an output whose reader leaves after some writes.
type closing struct{ after int }

// Write takes what it is given until the reader left.
func (c *closing) Write(p []byte) (int, error) {
	if c.after--; c.after < 0 {
		return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	}
	return len(p), nil
}

// TestStrangeServers: what is no answer of a control API is said to be none.
func TestStrangeServers(t *testing.T) {
	tests := []struct {
		name   string
		handle http.HandlerFunc
		status int
		want   string
	}{
		{"a_page", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, exitRefused, "nothing that a control API says"},
		{"text", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, exitFailure, "something else"},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, exitRefused, "302"},
		{"one_cursor", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[],"next_cursor":"c"}`)
		}, exitFailure, "does not move on"},
		{"no_route", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","message":"`+noRoute+`"}`)
		}, exitRefused, "does not have that"},
		{"unavailable", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"unavailable","message":"no quorum"}`)
		}, exitUnreachable, "no quorum: try again"},
		{"internal", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"code":"internal","message":"oh"}`)
		}, exitFailure, "oh"},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, exitUnreachable, "--timeout waits longer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			timeout := "--timeout=60s"
			if tt.name == "hangs" {
				timeout = "--timeout=200ms"
			}
			want(t, tt.status, "", append([]string{"stream", "ls", timeout}, fakeAPI(t, tt.handle)...), tt.want)
		})
	}
}

func TestCaches(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"cache", "create", "sessions", "--shards", "2", "--display-name", "Sessions", c}, "cache sessions is created with 2 shards")
	want(t, exitOK, "", []string{"cache", "create", "sessions", "--shards", "2", "--display-name", "Sessions", "--json", c}, `"result": "unchanged"`)
	want(t, exitRefused, "", []string{"cache", "create", "sessions", "--shards", "3", c}, "409 exists")
	want(t, exitOK, "", []string{"cache", "ls", c}, "sessions  2       1         leader       Sessions")
	want(t, exitOK, "", []string{"cache", "info", "sessions", c}, "display name  Sessions")
	if got := decode[cacheRow](t, want(t, exitOK, "", []string{"cache", "info", "sessions", "--json", c})); got.Cache != "sessions" || got.Shards != 2 {
		t.Errorf("got %+v", got)
	}
	want(t, exitOK, "", []string{"cache", "set", "sessions", "--display-name", "", c}, "display_name  Sessions")
	want(t, exitMissing, "", []string{"cache", "set", "none", "--display-name", "x", c}, "felixctl cache ls")
	want(t, exitOK, "", []string{"__complete", "cache", "info", c, ""}, "sessions\n")
	want(t, exitUsage, "", []string{"cache", "rm", "sessions", c}, "with its keys and counters for good, say --yes")
	want(t, exitUsage, "", []string{"namespace", "rm", "default", c}, "and 1 cache for good")
	want(t, exitMissing, "", []string{"cache", "rm", "sessions", "none", "--yes", c}, "nothing was deleted")
	want(t, exitOK, "", []string{"cache", "rm", "sessions", "--yes", c}, "sessions  deleted")
	if got := decode[[]cacheRow](t, want(t, exitOK, "", []string{"cache", "ls", "--json", c})); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAccessRules(t *testing.T) {
	c, _ := development(t)
	rule := []string{"role:reader", "stream:default/default/*", "stream.subscribe"}
	command := func(words ...string) []string {
		return append(append([]string{"rbac", "policy", words[0]}, rule...), append(words[1:], c)...)
	}
	want(t, exitOK, "", command("add"), "role:reader may stream.subscribe")
	want(t, exitOK, "", command("add"), "as before")
	want(t, exitOK, "", []string{"rbac", "policy", "ls", c}, "SUBJECT      OBJECT", "role:reader  stream:default/default/*")
	if got := decode[[]policyRow](t, want(t, exitOK, "", []string{"rbac", "policy", "ls", "--subject", "none", "--json", c})); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	want(t, exitOK, "", []string{"rbac", "grouping", "add", "p:alice", "role:reader", c}, "p:alice has role:reader")
	if got := decode[[]groupingRow](t, want(t, exitOK, "", []string{"rbac", "grouping", "ls", "--role", "role:reader", "--json", c})); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
	want(t, exitUsage, "", []string{"rbac", "grouping", "rm", "p:alice", "role:reader", c}, "say --yes")
	want(t, exitOK, "", []string{"rbac", "grouping", "rm", "p:alice", "role:reader", "--yes", c}, "removed")
	want(t, exitMissing, "", []string{"rbac", "grouping", "rm", "p:alice", "role:reader", "--yes", c}, "no such grouping")
	want(t, exitOK, "", command("rm", "--yes"), "removed: the rule that role:reader may")
	want(t, exitMissing, "", command("rm", "--yes"), "404")
}

func TestPlacement(t *testing.T) {
	c, dev := development(t)
	operator := "--controlplane-token=" + mint(t, dev, nil, "node.manage:cluster:*")
	want(t, exitOK, "", []string{"stream", "create", "orders", "--shards", "2", c})
	want(t, exitOK, "", []string{"placement", "replication", c}, "default  default    stream  orders  1      node-1  1 of 1")
	if got := decode[[]replicationRow](t, want(t, exitOK, "", []string{"placement", "replication", "--under-replicated", "--json", c})); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	want(t, exitOK, "", []string{"placement", "plan", c}, "ACTION  REASON")
	want(t, exitOK, "", []string{"placement", "pause", operator, c}, "placement is paused")
	want(t, exitRefused, "", []string{"placement", "pause", c}, "node.manage on cluster:*")
	want(t, exitOK, "", []string{"placement", "moves", c}, "STEP", "felixctl placement resume")
	if got := decode[movesView](t, want(t, exitOK, "", []string{"placement", "moves", "--json", c})); !got.Paused || got.Items == nil {
		t.Errorf("got %+v", got)
	}
	want(t, exitOK, "", []string{"cluster", "status", c}, "moves             0 (placement is paused)")
	want(t, exitOK, "", []string{"placement", "resume", "--json", operator, c}, `"paused": false`)
}

// TestUnhealthyCluster: what a cluster of several nodes can lack is told, and by the exit status only that it could be looked at.
func TestUnhealthyCluster(t *testing.T) {
	flags := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/system/ready":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"draining","message":"this member is stopping"}`)
		case "/v1/nodes":
			_, _ = io.WriteString(w, `{"items":[{"node":{"node_id":"a","status":{"lifecycle":"live"}}},{"node":{"node_id":"b","status":{"lifecycle":"down"}}}]}`)
		case "/v1/shard-assignments":
			_, _ = io.WriteString(w, `{"items":[{"stream":"s","shard":0},{"stream":"s","shard":1},{"stream":"s","shard":2}]}`)
		case "/v1/placement/replication":
			_, _ = io.WriteString(w, `{"items":[{"stream":"s","shard":0,"leader":"a","desired_replicas":2,"current_replicas":1,"unavailable":["b"]},`+
				`{"stream":"s","shard":1,"leader":"b","desired_replicas":1,"current_replicas":0,"unavailable":["b"]}]}`)
		case "/v1/placement/plan":
			_, _ = io.WriteString(w, `{"items":[{"stream":"s","shard":1,"action":"unplaceable","reason":"no node"}]}`)
		default:
			_, _ = io.WriteString(w, `{"paused":false,"items":[{"stream":"s","shard":2,"leader":"a","destination":"c","step":"staged","lag_records":7}]}`)
		}
	})
	want(t, exitOK, "", append([]string{"cluster", "status"}, flags...), "NOT healthy", "not ready: this member is stopping", "1 of 2 live, down: b",
		"without leader    1", "under-replicated  2", "unplaceable       1", "moves             1", "1 of 2")
	s := decode[clusterStatus](t, want(t, exitOK, "", append([]string{"cluster", "status", "--json"}, flags...)))
	if s.Healthy || s.Shards.Total != 3 || len(s.Shards.Examples) != 2 || s.Moves != 1 {
		t.Errorf("got %+v", s)
	}
	want(t, exitOK, "", append([]string{"placement", "moves"}, flags...), "FROM  TO", "staged  7")
}

// TestRules: rules and groupings are sent as the API has them; a deletion carries the rule.
func TestRules(t *testing.T) {
	var got []string
	status := http.StatusCreated
	flags := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.Path+" "+string(body))
		switch {
		case r.Method == http.MethodGet && r.URL.Query().Get("limit") == "":
			t.Errorf("a listing without pages: %s", r.URL)
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "policies"):
			_, _ = io.WriteString(w, `{"items":[{"subject":"a","object":"stream:t/n/s","action":"stream.publish"},{"subject":"b","object":"stream:t/n/s","action":"stream.publish"}]}`)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"items":[{"user":"p:a","role":"r"},{"user":"p:b","role":"s"}]}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}
	})
	run := func(want int, args ...string) result {
		t.Helper()
		got := runCtl(t, "", nil, append(args, flags...)...)
		if got.status != want {
			t.Fatalf("%v: got %+v, want status %d", args, got, want)
		}
		return got
	}
	if out := run(exitOK, "rbac", "policy", "ls", "--subject", "b").out; strings.Count(out, "\n") != 3 {
		t.Errorf("got %q", out)
	}
	if list := decode[[]groupingRow](t, run(exitOK, "rbac", "grouping", "ls", "--role", "r", "--json")); len(list) != 2 || list[0].User != "p:a" {
		t.Errorf("got %+v", list)
	}
	got = nil
	run(exitOK, "rbac", "policy", "add", "role:x", "stream:t/n/*", "stream.subscribe")
	run(exitOK, "rbac", "grouping", "add", "p:a", "role:x", "--json")
	run(exitUsage, "rbac", "policy", "rm", "role:x", "stream:t/n/*", "stream.subscribe")
	run(exitOK, "rbac", "policy", "rm", "role:x", "stream:t/n/*", "stream.subscribe", "--yes")
	run(exitOK, "rbac", "grouping", "rm", "p:a", "role:x", "--yes")
	rule, pair := `{"subject":"role:x","object":"stream:t/n/*","action":"stream.subscribe"}`, `{"user":"p:a","role":"role:x"}`
	for i, want := range []string{
		"POST /v1/tenants/t/rbac/policies " + rule, "POST /v1/tenants/t/rbac/groupings " + pair,
		"DELETE /v1/tenants/t/rbac/policies " + rule, "DELETE /v1/tenants/t/rbac/groupings " + pair,
	} {
		if i >= len(got) || got[i] != want {
			t.Fatalf("got %q, want %q at %d", got, want, i)
		}
	}
	status = http.StatusOK
	if out := run(exitOK, "rbac", "grouping", "add", "p:a", "role:x").out; !strings.Contains(out, "as before") {
		t.Errorf("got %q", out)
	}
}

func TestWords(t *testing.T) {
	for seconds, want := range map[int64]string{0: "0s", 1: "1s", 60: "1m", 3600: "1h", 86400: "1d", 90061: "1d1h1m1s", 604800: "7d"} {
		if got := ageOf(seconds); got != want {
			t.Errorf("%d: got %s, want %s", seconds, got, want)
		}
	}
	for _, s := range []string{"AtLeastOnce", "at-least-once", "at_least_once", "ATLEASTONCE"} {
		if got, err := deliveries.parse("delivery", s); err != nil || got != "AtLeastOnce" {
			t.Errorf("%s: got %s, %v", s, got, err)
		}
	}
	if got, err := routings.parse("routing", "jump-hash"); err != nil || got != "jump_hash" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		text  string
		units []unit
		want  int64 // 0: refused
	}{
		{"90", secondUnits, 90},
		{"7d", secondUnits, 604800},
		{"2w", secondUnits, 1209600},
		{"1GiB", byteUnits, 1 << 30},
		{"500MB", byteUnits, 500_000_000},
		{"7d", byteUnits, 0},
		{"0h", secondUnits, 0},
		{"-1", secondUnits, 0},
		{"d", secondUnits, 0},
		{"1.5h", secondUnits, 0},
		{"9223372036854775807", byteUnits, 9223372036854775807},
		{"9223372036854775807w", secondUnits, 0},
		{"92233720368547758070", byteUnits, 0},
	} {
		n, err := bound("flag", tt.text, tt.units)
		if (err != nil) != (tt.want == 0) || err == nil && *n != tt.want {
			t.Errorf("%s: got %v, %v, want %d", tt.text, n, err, tt.want)
		}
	}
	if n, err := bound("flag", "default", byteUnits); n != nil || err != nil {
		t.Errorf("default: got %v, %v", n, err)
	}
}
