package node

import (
	"errors"
	"net/http"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// TestTenantMadeAgain deletes a tenant and makes another one under its name: neither a login nor a group of the old one reaches the new one,
// and what the old one had committed is not seen, not after a restart either.
func TestTenantMadeAgain(t *testing.T) {
	dir := t.TempDir()
	settings := []string{"FELIX_KAFKA_TLS=false", "FELIX_KAFKA_SASL_PLAIN_USERS=static:secret", "FELIX_CONTROLPLANE_BIND=127.0.0.1:0"}
	n := openTest(t, dir, settings...)
	old := withTenant(t, n, "acme", 1)
	connect := func(token string) *kgo.Client {
		return newClient(t, n.Addrs().Kafka, kgo.SASL(plain.Auth{User: "acme", Pass: token}.AsMechanism()), kgo.RetryTimeout(testTimeout))
	}
	rights := "tenant.manage:tenant:acme"
	token := mintTest(t, old, auth.Claims{Tenant: "acme"}, rights)
	was := connect(token)
	produce(t, was, "orders", 3)
	var offsets kadm.Offsets
	offsets.AddOffset("orders", 0, 2, -1)
	if err := kadm.NewClient(was).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}

	if _, err := n.propose(t.Context(), cluster.DeleteTenant{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	fresh := withTenant(t, n, "acme", 2)
	for err := error(nil); !errors.Is(err, kerr.SaslAuthenticationFailed); { // the first tries may find connections that are just being closed
		if err = was.Ping(t.Context()); err == nil {
			t.Fatal("who was logged in to the old tenant comes back")
		}
	}
	api := mintTest(t, old, auth.Claims{Tenant: "acme", Audience: auth.AudienceControlPlane}, rights)
	if status, _ := apiCall(t, http.MethodGet, "http://"+n.Addrs().API+"/v1/tenants/acme/signing-keys", "", "Authorization", "Bearer "+api); status != http.StatusUnauthorized {
		t.Errorf("the old tenant's token for the API: status %d", status)
	}
	for range 2 {
		now := connect(mintTest(t, fresh, auth.Claims{Tenant: "acme"}, rights))
		produce(t, now, "orders", 1)
		adm := kadm.NewClient(now)
		if groups, err := adm.ListGroups(t.Context()); err != nil || len(groups) != 0 {
			t.Errorf("the new tenant has groups %v, %v", groups.Groups(), err)
		}
		if got, err := adm.FetchOffsets(t.Context(), "g"); err != nil || len(got) != 0 {
			t.Errorf("the new tenant has committed %v, %v", got, err)
		}
		now.Close()
		if err := n.Close(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		n = openTest(t, dir, settings...)
	}
}
