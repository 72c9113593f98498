package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

func quotaOf(tenant, user string, rates ...cluster.RateChange) cluster.QuotaChange {
	return cluster.QuotaChange{Entity: cluster.QuotaEntity{Tenant: tenant, User: cluster.QuotaName{Kind: cluster.QuotaNamed, Name: user}}, Rates: rates}
}

func TestSetClientQuotas(t *testing.T) {
	s := testState(t)
	produced := func(v int64) cluster.RateChange { return cluster.RateChange{Rate: cluster.ProducerByteRate, Value: v} }
	consumed := func(v int64) cluster.RateChange { return cluster.RateChange{Rate: cluster.ConsumerByteRate, Value: v} }
	steps := []struct {
		name   string
		change cluster.QuotaChange
		want   errcode.Kind
		have   string // what the tenant has afterwards, as user:produced/consumed
	}{
		{"set", quotaOf("default", "u", produced(5)), errcode.OK, "u:5/0"},
		{"another_rate", quotaOf("default", "u", consumed(6)), errcode.OK, "u:5/6"},
		{"another_user", quotaOf("default", "a", consumed(7)), errcode.OK, "a:0/7 u:5/6"},
		{"remove_one_rate", quotaOf("default", "u", produced(0)), errcode.OK, "a:0/7 u:0/6"},
		{"all_or_nothing", quotaOf("default", "u", produced(9), consumed(-1)), errcode.InvalidRequest, "a:0/7 u:0/6"},
		{"no_rates", quotaOf("default", "new"), errcode.OK, "a:0/7 u:0/6"},
		{"remove_missing", quotaOf("default", "new", produced(0)), errcode.OK, "a:0/7 u:0/6"},
		{"twice_in_one", quotaOf("default", "u", produced(1), produced(2), consumed(0)), errcode.OK, "a:0/7 u:2/0"},
		{"remove", quotaOf("default", "u", produced(0)), errcode.OK, "a:0/7"},
		{"no_tenant", quotaOf("nobody", "u", produced(1)), errcode.PolicyViolation, "a:0/7"},
		{"empty_name", quotaOf("default", "", produced(1)), errcode.InvalidRequest, "a:0/7"},
		{"long_name", quotaOf("default", strings.Repeat("x", 1025), produced(1)), errcode.InvalidRequest, "a:0/7"},
		{"nobody", cluster.QuotaChange{Entity: cluster.QuotaEntity{Tenant: "default"}, Rates: []cluster.RateChange{produced(1)}}, errcode.InvalidRequest, "a:0/7"},
		{"unknown_rate", quotaOf("default", "u", cluster.RateChange{Rate: 3, Value: 1}), errcode.Internal, "a:0/7"},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			res := s.next(cluster.SetClientQuotas{Changes: []cluster.QuotaChange{step.change}})
			if got := errcode.Of(res.Items[0].Err); got != step.want {
				t.Errorf("got %v (%v), want %v", got, res.Items[0].Err, step.want)
			}
			var have []string
			for _, q := range s.image.Quotas("default").List() {
				have = append(have, fmt.Sprintf("%s:%d/%d", q.Entity.User.Name, q.Producer, q.Consumer))
			}
			if got := strings.Join(have, " "); got != step.have {
				t.Errorf("got %q, want %q", got, step.have)
			}
		})
	}
}

// TestClientQuotasAreBounded: at the bound old entities can be changed and removed, and no new one is taken.
func TestClientQuotasAreBounded(t *testing.T) {
	s := testState(t)
	var all []cluster.QuotaChange
	for i := range cluster.MaxClientQuotas + 1 {
		all = append(all, quotaOf("default", fmt.Sprint("u", i), cluster.RateChange{Rate: cluster.ProducerByteRate, Value: 1}))
	}
	items := s.next(cluster.SetClientQuotas{Changes: all}).Items
	for i, item := range items {
		want := errcode.OK
		if i == cluster.MaxClientQuotas {
			want = errcode.PolicyViolation
		}
		if got := errcode.Of(item.Err); got != want {
			t.Fatalf("entity %d: %v, want %v", i, item.Err, want)
		}
	}
	res := s.next(cluster.SetClientQuotas{Changes: []cluster.QuotaChange{
		quotaOf("default", "u1", cluster.RateChange{Rate: cluster.ProducerByteRate, Value: 2}),
		quotaOf("default", "u2", cluster.RateChange{Rate: cluster.ProducerByteRate}), all[cluster.MaxClientQuotas],
	}})
	for i, item := range res.Items {
		if item.Err != nil {
			t.Errorf("item %d: %v", i, item.Err)
		}
	}
	m, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil || m.QuotaCount() != cluster.MaxClientQuotas {
		t.Errorf("a snapshot of all: %v", err)
	}
}
