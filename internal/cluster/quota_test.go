package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func named(s string) QuotaName { return QuotaName{QuotaNamed, s} }

var anyone, everyoneElse = QuotaName{}, QuotaName{Kind: QuotaDefault}

// TestQuotaPrecedence takes the entities away one after the other, the strongest first: the next one in Kafka's order decides.
func TestQuotaPrecedence(t *testing.T) {
	order := [][2]QuotaName{
		{named("u"), named("c")},
		{named("u"), everyoneElse},
		{named("u"), anyone},
		{everyoneElse, named("c")},
		{everyoneElse, everyoneElse},
		{everyoneElse, anyone},
		{anyone, named("c")},
		{anyone, everyoneElse},
	}
	b := NewBuilder(NewImage(nil))
	for i, e := range order {
		b.PutQuota(ClientQuota{Entity: QuotaEntity{"t", e[0], e[1]}, Producer: int64(i + 1)})
	}
	b.PutQuota(ClientQuota{Entity: QuotaEntity{"t", named("other"), anyone}, Producer: 99})
	b.PutQuota(ClientQuota{Entity: QuotaEntity{"t2", named("u"), named("c")}, Producer: 98})
	m := b.Build(1)
	for i, e := range order {
		q := m.Quotas("t").Find(ProducerByteRate, "u", "c")
		if q == nil || q.Producer != int64(i+1) {
			t.Fatalf("step %d: got %+v", i, q)
		}
		if q := m.Quotas("t").Find(ConsumerByteRate, "u", "c"); q != nil {
			t.Fatalf("a rate that nobody set is found: %+v", q)
		}
		b := NewBuilder(m)
		b.PutQuota(ClientQuota{Entity: QuotaEntity{"t", e[0], e[1]}})
		m = b.Build(m.Version() + 1)
	}
	if q := m.Quotas("t").Find(ProducerByteRate, "u", "c"); q != nil {
		t.Errorf("got %+v, want none: the rest is for another user", q)
	}
	if m.QuotaCount() != 2 || m.Quotas("t3") != nil {
		t.Errorf("%d quotas are left, want 2", m.QuotaCount())
	}
}

// TestQuotaRateDecides: an entity that sets only the other rate does not hide a weaker one.
func TestQuotaRateDecides(t *testing.T) {
	b := NewBuilder(NewImage(nil))
	b.PutQuota(ClientQuota{Entity: QuotaEntity{"t", named("u"), anyone}, Producer: 1})
	b.PutQuota(ClientQuota{Entity: QuotaEntity{"t", everyoneElse, anyone}, Producer: 2, Consumer: 3})
	m := b.Build(1)
	if p, c := m.Quotas("t").Find(ProducerByteRate, "u", ""), m.Quotas("t").Find(ConsumerByteRate, "u", ""); p.Producer != 1 || c.Consumer != 3 {
		t.Errorf("got %+v and %+v", p, c)
	}
}

// TestQuotasAgainstModel: random changes, compared with a map; versions left behind do not change.
func TestQuotasAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	names := []QuotaName{anyone, everyoneElse, named("a"), named("b"), named("")}
	model := map[QuotaEntity]ClientQuota{}
	m := NewImage(nil)
	for v := range 300 {
		b, before := NewBuilder(m), fmt.Sprint(m.quotasText())
		for range rng.IntN(6) {
			e := QuotaEntity{fmt.Sprint("t", rng.IntN(3)), names[rng.IntN(len(names))], names[rng.IntN(len(names))]}
			q := ClientQuota{Entity: e, Producer: int64(rng.IntN(3)), Consumer: int64(rng.IntN(2))}
			b.PutQuota(q)
			if model[e] = q; q.Producer == 0 && q.Consumer == 0 {
				delete(model, e)
			}
		}
		next := b.Build(m.Version() + 1)
		if after := fmt.Sprint(m.quotasText()); after != before {
			t.Fatalf("version %d changed after it was left behind:\n%s\n%s", v, before, after)
		}
		m = next
		if m.QuotaCount() != len(model) {
			t.Fatalf("version %d: %d quotas, want %d", v, m.QuotaCount(), len(model))
		}
		for e, want := range model {
			if got := m.Quotas(e.Tenant).Get(e.User, e.Client); got == nil || *got != want {
				t.Fatalf("version %d: %+v is %+v, want %+v", v, e, got, want)
			}
		}
	}
}

func (m *Image) quotasText() (out []ClientQuota) {
	m.EachQuota(func(q *ClientQuota) bool { out = append(out, *q); return true })
	return out
}

func TestParseQuotaRate(t *testing.T) {
	for name, want := range map[string]string{
		"producer_byte_rate": "<nil>", "consumer_byte_rate": "<nil>",
		"request_percentage":       "request_percentage is not enforced here, so it is not stored; producer_byte_rate and consumer_byte_rate are",
		"controller_mutation_rate": "controller_mutation_rate is not enforced here, so it is not stored; producer_byte_rate and consumer_byte_rate are",
		"speed":                    `invalid configuration key "speed"`,
	} {
		rate, err := ParseQuotaRate(name)
		if fmt.Sprint(err) != want || err == nil && rate.String() != name {
			t.Errorf("%s: %v, %v", name, rate, err)
		}
	}
}

func TestQuotaFindDoesNotAllocate(t *testing.T) {
	b := NewBuilder(NewImage(nil))
	b.PutQuota(ClientQuota{Entity: QuotaEntity{"t", anyone, everyoneElse}, Producer: 1})
	q := b.Build(1).Quotas("t")
	if n := testing.AllocsPerRun(100, func() { q.Find(ProducerByteRate, "user", "client") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
