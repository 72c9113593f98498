package node

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// readToken returns the token in a file of the development directory, and checks who may read it.
func readToken(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v", path, info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

func TestDevelopmentTokens(t *testing.T) {
	dir := t.TempDir()
	files := developmentFiles{filepath.Join(dir, "dev")}
	n := openTest(t, dir)
	check := func(n *Node, v *auth.Verifier, token string) *auth.Identity {
		t.Helper()
		id, err := v.Verify(t.Context(), "default", token)
		if err != nil {
			t.Fatal(auth.DetailOf(err))
		}
		return id
	}
	token, apiToken := readToken(t, files.token()), readToken(t, files.apiToken())
	id := check(n, n.verifiers.broker, token)
	if left := time.Until(id.Expires); left < developmentTokenAge-time.Minute || left > developmentTokenAge || id.Principal != "p:developer" {
		t.Errorf("got %v with %v left", id, left)
	}
	g := id.Grants
	for name, allowed := range map[string]bool{
		"publish": g.Allowed(auth.StreamPublish, "default", "any", "thing"), "manage_stream": g.Allowed(auth.StreamManage, "default", "any", "thing"),
		"manage_namespace": g.AllowedNamespace(auth.NamespaceManage, "default", "new"), "write_cache": g.AllowedCache(auth.CacheWrite, "default", "any", "c"),
		"manage_group": g.AllowedGroup(auth.GroupManage, "default", "any", "thing", "g"), "kafka_group": g.AllowedKafkaGroup(auth.GroupConsume, "default", "g"),
		"manage_tenant": g.AllowedTenant(auth.TenantManage, "default"), "make_tenants": g.AllowedCluster(auth.TenantManage), "see_nodes": g.AllowedCluster(auth.NodeView),
	} {
		if !allowed {
			t.Errorf("%s is not allowed", name)
		}
	}
	if g.AllowedCluster(auth.NodeManage) || g.Allowed(auth.StreamPublish, "other", "any", "thing") {
		t.Error("more is allowed than a developer needs")
	}
	check(n, n.verifiers.api, apiToken)
	if _, err := n.verifiers.broker.Verify(t.Context(), "default", apiToken); auth.ReasonOf(err) != auth.ReasonAudience {
		t.Errorf("the API's token on a client listener: got %v", auth.DetailOf(err))
	}
	if _, err := n.verifiers.api.Verify(t.Context(), "default", token); auth.ReasonOf(err) != auth.ReasonAudience {
		t.Errorf("the client listeners' token on the API: got %v", auth.DetailOf(err))
	}
	key := readToken(t, files.signingKey())
	if err := n.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	// The key stays, so that tokens do: a restart does not log anybody out. The files hold new ones.
	again := openTest(t, dir)
	check(again, again.verifiers.broker, token)
	check(again, again.verifiers.broker, readToken(t, files.token()))
	if readToken(t, files.signingKey()) != key {
		t.Error("the signing key is another one after a restart")
	}
	if keys := again.controller.Image().Tenant("default").Keys; len(keys) != 1 {
		t.Errorf("got %d published keys, want one", len(keys))
	}
	if err := again.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	// Without the file there is a new key, and what the old one signed ends with it.
	if err := os.Remove(files.signingKey()); err != nil {
		t.Fatal(err)
	}
	third := openTest(t, dir)
	if _, err := third.verifiers.broker.Verify(t.Context(), "default", token); auth.ReasonOf(err) != auth.ReasonSignature {
		t.Errorf("a token of the key that was removed: %v", auth.DetailOf(err))
	}
	check(third, third.verifiers.broker, readToken(t, files.token()))
	if keys := third.controller.Image().Tenant("default").Keys; len(keys) != 1 || !strings.HasPrefix(keys[0].ID, auth.DevelopmentKeyPrefix) {
		t.Errorf("published keys %v, want the new one alone", keys)
	}
}

// TestRetiredDevelopmentKey: a development key that somebody retires is not published again, neither by a renewal nor at the next start.
func TestRetiredDevelopmentKey(t *testing.T) {
	dir := t.TempDir()
	files := developmentFiles{filepath.Join(dir, "dev")}
	n := openTest(t, dir)
	token := readToken(t, files.token())
	retire := func(n *Node) {
		t.Helper()
		next, err := newSigningKey()
		if err != nil {
			t.Fatal(err)
		}
		was, _ := n.controller.Image().Tenant("default").CurrentKey()
		for _, cmd := range []cluster.Command{
			cluster.PutSigningKey{Tenant: "default", Key: next},
			cluster.ActivateSigningKey{Tenant: "default", ID: next.ID},
			cluster.RetireSigningKey{Tenant: "default", ID: was.ID},
		} {
			if _, err := n.propose(t.Context(), cmd); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(n *Node) {
		t.Helper()
		if _, err := n.verifiers.broker.Verify(t.Context(), "default", token); auth.ReasonOf(err) != auth.ReasonSignature {
			t.Errorf("a token of a retired key: %v", auth.DetailOf(err))
		}
		if _, err := n.verifiers.broker.Verify(t.Context(), "default", readToken(t, files.token())); err != nil {
			t.Errorf("the token that lies there: %v", auth.DetailOf(err))
		}
	}
	retire(n)
	d := &development{files: files, tenant: "default", now: time.Now}
	d.publish = func(ctx context.Context, key cluster.NewSigningKey) error {
		return n.publishDevelopmentKey(ctx, "default", key)
	}
	d.known = func(key cluster.NewSigningKey) bool { return n.hasKey("default", key.Seed) }
	if err := d.mint(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(n)
	token = readToken(t, files.token())
	for _, k := range n.controller.Image().Tenant("default").Keys {
		if k.State != cluster.KeyCurrent && strings.HasPrefix(k.ID, auth.DevelopmentKeyPrefix) {
			if _, err := n.propose(t.Context(), cluster.RetireSigningKey{Tenant: "default", ID: k.ID}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := n.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	check(openTest(t, dir))
}

// TestProfileEnds: what the development profile gave out is good for nothing once the node is configured, be its key file there or not, and
// also where the key was published under an id as every other key has.
func TestProfileEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		between func(t *testing.T, n *Node, files developmentFiles)
	}{
		{"as_it_was", func(*testing.T, *Node, developmentFiles) {}},
		{"no_file", func(t *testing.T, _ *Node, files developmentFiles) {
			if err := os.Remove(files.signingKey()); err != nil {
				t.Fatal(err)
			}
		}},
		{"plain_id", func(t *testing.T, n *Node, files developmentFiles) {
			seed, err := files.readSeed()
			if err != nil {
				t.Fatal(err)
			}
			plain, dev := cluster.KeyFromSeed(seed), developmentKey(seed)
			for _, cmd := range []cluster.Command{
				cluster.PutSigningKey{Tenant: "default", Key: plain},
				cluster.ActivateSigningKey{Tenant: "default", ID: plain.ID},
				cluster.RetireSigningKey{Tenant: "default", ID: dev.ID},
			} {
				if _, err := n.propose(t.Context(), cmd); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"as_many_keys_as_there_may_be", func(t *testing.T, n *Node, _ developmentFiles) { fillKeys(t, n) }},
		{"as_many_and_none_staged", func(t *testing.T, n *Node, _ developmentFiles) {
			signs, _ := n.controller.Image().Tenant("default").CurrentKey()
			fillKeys(t, n)
			for _, k := range append(slices.Clone(n.controller.Image().Tenant("default").Keys[1:]), signs) {
				if _, err := n.propose(t.Context(), cluster.ActivateSigningKey{Tenant: "default", ID: k.ID}); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := developmentFiles{filepath.Join(dir, "dev")}
			n := openTest(t, dir)
			token, apiToken := readToken(t, files.token()), readToken(t, files.apiToken())
			c.between(t, n, files)
			if err := n.Close(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			n = openTest(t, dir, "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret", "FELIX_KAFKA_TLS=false")
			if _, err := n.verifiers.broker.Verify(t.Context(), "default", token); auth.ReasonOf(err) != auth.ReasonSignature {
				t.Errorf("a token of the profile: %v", auth.DetailOf(err))
			}
			if _, err := n.verifiers.api.Verify(t.Context(), "default", apiToken); auth.ReasonOf(err) != auth.ReasonSignature {
				t.Errorf("its token for the API: %v", auth.DetailOf(err))
			}
			k, signs := n.controller.Image().Tenant("default").CurrentKey()
			if !signs || strings.HasPrefix(k.ID, auth.DevelopmentKeyPrefix) {
				t.Errorf("key %v signs for the tenant", k)
			}
			if _, err := os.Stat(files.signingKey()); !os.IsNotExist(err) {
				t.Errorf("the key is left: %v", err)
			}
			if err := n.Close(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			// The profile can come back, with a key of its own.
			n = openTest(t, dir)
			if _, err := n.verifiers.broker.Verify(t.Context(), "default", readToken(t, files.token())); err != nil {
				t.Errorf("back in the profile: %v", auth.DetailOf(err))
			}
			if _, err := n.verifiers.broker.Verify(t.Context(), "default", token); err == nil {
				t.Error("back in the profile the old token is taken again")
			}
		})
	}
}

// fillKeys stages keys for the profile's tenant until it has as many as it may.
func fillKeys(t *testing.T, n *Node) {
	t.Helper()
	for len(n.controller.Image().Tenant("default").Keys) < cluster.MaxSigningKeys {
		next, err := newSigningKey()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.propose(t.Context(), cluster.PutSigningKey{Tenant: "default", Key: next}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProfileWithAllKeys: the profile starts with a new key of its own also where its key file is lost and there is no room for another key.
func TestProfileWithAllKeys(t *testing.T) {
	dir := t.TempDir()
	files := developmentFiles{filepath.Join(dir, "dev")}
	n := openTest(t, dir)
	token := readToken(t, files.token())
	fillKeys(t, n)
	if err := n.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files.signingKey()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, dir)
	if _, err := n.verifiers.broker.Verify(t.Context(), "default", readToken(t, files.token())); err != nil {
		t.Errorf("a token of the new key: %v", auth.DetailOf(err))
	}
	if _, err := n.verifiers.broker.Verify(t.Context(), "default", token); err == nil {
		t.Error("a token of the key that is lost is taken")
	}
}

// TestNoTokensOutsideTheProfile: whoever configures access gets no key that they did not ask for.
func TestNoTokensOutsideTheProfile(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir, "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret")
	for _, path := range []string{developmentFiles{filepath.Join(dir, "dev")}.token(), developmentFiles{filepath.Join(dir, "dev")}.signingKey()} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: got %v, want no such file", path, err)
		}
	}
	if keys := n.controller.Image().Tenant("acme").Keys; len(keys) != 0 {
		t.Errorf("got %d keys", len(keys))
	}
}

func TestDevelopmentKeyThatIsNone(t *testing.T) {
	files := developmentFiles{t.TempDir()}
	ecKey, err := newAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other, err := pemKey(ecKey.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"no_pem": []byte("secret words"), "no_key": pemBlock("PRIVATE KEY", []byte("secret words")), "other_key": other,
	} {
		if err := os.WriteFile(files.signingKey(), text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := files.seed()
		if err == nil || !strings.Contains(err.Error(), "remove it") || strings.Contains(err.Error(), "secret words") {
			t.Errorf("%s: got %v, want a refusal that says what to do and does not quote the file", name, err)
		}
		if kept, err := os.ReadFile(files.signingKey()); err != nil || string(kept) != string(text) {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
}

func TestDevelopmentTokensAreRenewed(t *testing.T) {
	dir := t.TempDir()
	files := developmentFiles{dir}
	var published []string
	synctest.Test(t, func(t *testing.T) {
		var ahead time.Duration // of the clock on the wall
		var mu sync.Mutex
		d := &development{files: files, tenant: "default", now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}}
		d.known = func(key cluster.NewSigningKey) bool { return true }
		d.publish = func(_ context.Context, key cluster.NewSigningKey) error {
			published = append(published, key.ID)
			return nil
		}
		if err := d.mint(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends := func() time.Time {
			u, err := auth.Look(readToken(t, files.token()))
			if err != nil {
				t.Fatal(err)
			}
			return u.Expires
		}
		n := &Node{}
		n.wg.Go(func() { d.renew(t.Context(), zap.NewNop()) })
		first := ends()
		time.Sleep(developmentTokenAge/2 - time.Second)
		synctest.Wait()
		if !ends().Equal(first) {
			t.Error("minted anew before half of its life")
		}
		time.Sleep(developmentRetry)
		synctest.Wait()
		if got := ends(); got.Sub(first) != developmentTokenAge/2 {
			t.Errorf("after half of its life the token ends at %v, want half a life later than %v", got, first)
		}
		// A failure is tried again soon.
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(developmentTokenAge / 2)
		synctest.Wait()
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		second := ends()
		time.Sleep(developmentRetry + time.Second)
		synctest.Wait()
		if got := ends(); !got.After(second) {
			t.Error("a renewal that failed was not tried again")
		}
		// The machine sleeps: no timer of the process moves, and the clock on the wall does.
		third := ends()
		mu.Lock()
		ahead = developmentTokenAge
		mu.Unlock()
		time.Sleep(developmentRetry + time.Second)
		synctest.Wait()
		if got := ends(); got.Sub(third) < developmentTokenAge {
			t.Errorf("after a sleep of %v the token ends at %v, as before", developmentTokenAge, got)
		}
		if slices.ContainsFunc(published, func(id string) bool { return id != published[0] }) {
			t.Errorf("keys %v were published, want one", published)
		}
	})
}

func TestFelixctlContext(t *testing.T) {
	d := &development{files: developmentFiles{"/var/lib/felix/dev"}, tenant: "default", namespace: "default"}
	got := string(d.felixctlContext(Addresses{Kafka: "127.0.0.1:9092", Native: "0.0.0.0:5000", API: "127.0.0.1:8443"}))
	const want = `# Written by felix at each start: felixctl --config FILE, or FELIX_CLI_CONFIG=FILE.
current = "dev"

[context.dev]
brokers = "127.0.0.1:5000"
ca_file = "/var/lib/felix/dev/ca.pem"
server_name = "localhost"
kafka_brokers = "127.0.0.1:9092"
kafka_security = "plaintext"
tenant = "default"
namespace = "default"
token_file = "/var/lib/felix/dev/token"
controlplane_url = "http://127.0.0.1:8443"
controlplane_token_file = "/var/lib/felix/dev/api-token"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadyFileNamesTheListeners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ready.json")
	if err := writeReady(path, Addresses{Kafka: "a:1", Native: "b:2", API: "c:3", Metrics: "d:4"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"kafka": "a:1", "native": "b:2", "api": "c:3", "metrics": "d:4"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestDevelopmentFilesAreNobodyElses: everything in the directory is for the node's user alone.
func TestDevelopmentFilesAreNobodyElses(t *testing.T) {
	dir := t.TempDir()
	openTest(t, dir)
	seen := 0
	err := filepath.WalkDir(filepath.Join(dir, "dev"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		seen++
		return err
	})
	if err != nil || seen < 4 {
		t.Errorf("got %d entries, %v", seen, err)
	}
}
