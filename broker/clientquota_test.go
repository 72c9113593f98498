package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/cluster"
)

// quotaBroker is a broker of which only the client quotas are used, over an image that the test sets.
type quotaBroker struct {
	*Broker
	meta  *quotaMeta
	clock *quotaClock
}

type quotaMeta struct {
	Metadata
	image *cluster.Image
}

func (m *quotaMeta) Image() *cluster.Image { return m.image }

func newQuotaBroker() *quotaBroker {
	clock := &quotaClock{time.UnixMilli(1_700_000_000_000)}
	meta := &quotaMeta{image: cluster.NewImage(nil)}
	return &quotaBroker{&Broker{opts: Options{Metadata: meta, Now: clock.now}, clientQuotas: newClientQuotas(clock.now, newMetrics(nil))}, meta, clock}
}

func (b *quotaBroker) set(user, client string, produce, consume int64) {
	build := cluster.NewBuilder(b.meta.image)
	build.PutQuota(cluster.ClientQuota{Entity: cluster.QuotaEntity{Tenant: "t", User: quotaName(user), Client: quotaName(client)}, Producer: produce, Consumer: consume})
	b.meta.image = build.Build(b.meta.image.Version() + 1)
}

// quotaName: "" is any, "*" the default.
func quotaName(s string) cluster.QuotaName {
	switch s {
	case "":
		return cluster.QuotaName{}
	case "*":
		return cluster.QuotaName{Kind: cluster.QuotaDefault}
	default:
		return cluster.QuotaName{Kind: cluster.QuotaNamed, Name: s}
	}
}

func (b *quotaBroker) produce(user, client string, bytes int) time.Duration {
	return b.DrawClientQuota(&Caller{Tenant: "t", Principal: user}, client, cluster.ProducerByteRate, bytes)
}

// TestWhoSharesAClientBudget: for each kind of entity two of four clients move twice the first second's worth together.
func TestWhoSharesAClientBudget(t *testing.T) {
	clients := [4][2]string{{"u1", "c1"}, {"u1", "c2"}, {"u2", "c1"}, {"u2", "c2"}}
	tests := []struct{ user, client, want string }{
		{"u1", "c1", "0s 1s|- -|- -|- -"},
		{"u1", "*", "0s 1s|0s 1s|- -|- -"},
		{"u1", "", "0s 1s|2s 3s|- -|- -"},
		{"*", "c1", "0s 1s|- -|0s 1s|- -"},
		{"*", "*", "0s 1s|0s 1s|0s 1s|0s 1s"},
		{"*", "", "0s 1s|2s 3s|0s 1s|2s 3s"},
		{"", "c1", "0s 1s|- -|2s 3s|- -"},
		{"", "*", "0s 1s|0s 1s|2s 3s|2s 3s"},
	}
	for _, tc := range tests {
		t.Run("user_"+tc.user+"_client_"+tc.client, func(t *testing.T) {
			b := newQuotaBroker()
			b.set(tc.user, tc.client, 1000, 0)
			var got []string
			for _, c := range clients {
				first, second := b.produce(c[0], c[1], 1000), b.produce(c[0], c[1], 1000)
				if b.meta.image.Quotas("t").Find(cluster.ProducerByteRate, c[0], c[1]) == nil {
					got = append(got, "- -")
					continue
				}
				got = append(got, fmt.Sprint(first, " ", second))
			}
			if s := strings.Join(got, "|"); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
}

func TestClientQuotaOverTime(t *testing.T) {
	b := newQuotaBroker()
	if hold := b.produce("u", "c", 1<<30); hold != 0 {
		t.Fatalf("held for %v without a quota", hold)
	}
	b.set("u", "", 1000, 500)
	draw := func(want time.Duration, bytes int) {
		t.Helper()
		if got := b.produce("u", "c", bytes); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	draw(0, 1000)
	draw(0, 0)
	draw(500*time.Millisecond, 500)
	draw(500*time.Millisecond, 0)
	if got := b.DrawClientQuota(&Caller{Tenant: "t", Principal: "u"}, "c", cluster.ConsumerByteRate, 501); got != 2*time.Millisecond {
		t.Errorf("the other rate: %v, want 2ms", got)
	}
	if got := b.DrawClientQuota(&Caller{Tenant: "other", Principal: "u"}, "c", cluster.ProducerByteRate, 1<<20); got != 0 {
		t.Errorf("another tenant's user of the same name is held for %v", got)
	}
	b.clock.t = b.clock.t.Add(600 * time.Millisecond)
	draw(0, 0)
	b.set("u", "", 100, 0) // a change counts from now on
	draw(time.Second-100*time.Millisecond, 100)
	b.set("u", "", 0, 0)
	draw(0, 1<<20)
	b.set("", "*", 1000, 0)
	b.clock.t = b.clock.t.Add(time.Hour)
	draw(MaxPublishHold, 1<<30)
}

// TestClientBudgetsAreBounded: clients that invent ids take a bounded number of budgets; beyond it they share one, and who owed nothing
// makes room.
func TestClientBudgetsAreBounded(t *testing.T) {
	b := newQuotaBroker()
	b.set("", "*", 1000, 0)
	for i := range maxClientBudgets {
		b.produce("u", fmt.Sprint("c", i), 2000)
	}
	b.produce("u", "over1", 1000)
	if got := b.produce("u", "over2", 1000); got != time.Second {
		t.Errorf("got %v: the clients beyond the bound do not share a budget", got)
	}
	if n := len(b.clientQuotas.budgets); n != maxClientBudgets+1 {
		t.Errorf("%d budgets", n)
	}
	b.clock.t = b.clock.t.Add(time.Minute)
	if got := b.produce("u", "later", 1000); got != 0 || len(b.clientQuotas.budgets) != 1 {
		t.Errorf("got %v and %d budgets after all are full again", got, len(b.clientQuotas.budgets))
	}
	long := strings.Repeat("x", cluster.MaxQuotaNameLength)
	b.produce("u", long+"1", 1000)
	if got := b.produce("u", long+"2", 1000); got != time.Second {
		t.Errorf("got %v: long ids are kept whole", got)
	}
}

func TestClientQuotaDrawDoesNotAllocate(t *testing.T) {
	b := newQuotaBroker()
	caller := &Caller{Tenant: "t", Principal: "u"}
	for _, set := range []bool{false, true} {
		if set {
			b.set("", "*", 1<<40, 0)
			b.produce("u", "c", 1)
		}
		if n := testing.AllocsPerRun(100, func() { b.DrawClientQuota(caller, "c", cluster.ProducerByteRate, 1) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
