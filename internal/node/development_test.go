package node

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
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

	// Without the file there is a new key, and what the old one signed is good until it expires.
	if err := os.Remove(files.signingKey()); err != nil {
		t.Fatal(err)
	}
	third := openTest(t, dir)
	check(third, third.verifiers.broker, token)
	check(third, third.verifiers.broker, readToken(t, files.token()))
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
		_, err := files.seed()
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
	seed, err := files.seed()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := auth.NewSigner("", seed)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := &development{files: files, tenant: "default", signer: signer, now: time.Now}
		if err := d.mint(); err != nil {
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
		time.Sleep(2 * time.Second)
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
