package cluster

import (
	"cmp"
	"slices"
	"strings"

	"github.com/felixlog/felix/internal/errcode"
)

// QuotaRate is one of the rates that a client quota can bound. The numbers are stored: never reused.
type QuotaRate uint8

// The rates.
const (
	ProducerByteRate QuotaRate = 1 // bytes of batches appended in a second
	ConsumerByteRate QuotaRate = 2 // bytes of batches fetched in a second
)

var quotaRateNames = map[string]QuotaRate{"producer_byte_rate": ProducerByteRate, "consumer_byte_rate": ConsumerByteRate}

// String is the configuration name that Kafka gives the rate.
func (r QuotaRate) String() string {
	for name, rate := range quotaRateNames {
		if rate == r {
			return name
		}
	}
	return "unknown_rate"
}

// Kafka's other client quotas, which nothing here enforces.
var unenforcedRates = []string{"request_percentage", "controller_mutation_rate", "connection_creation_rate"}

// ParseQuotaRate finds a rate by the name that String gives. A quota that Kafka has and nothing here enforces is refused as well: what
// is stored is kept to.
func ParseQuotaRate(name string) (QuotaRate, error) {
	if r, ok := quotaRateNames[name]; ok {
		return r, nil
	}
	if slices.Contains(unenforcedRates, name) {
		return 0, errcode.Newf(errcode.InvalidConfig, "%s is not enforced here, so it is not stored; producer_byte_rate and consumer_byte_rate are", name)
	}
	return 0, errcode.Newf(errcode.InvalidRequest, "invalid configuration key %.64q", name)
}

// QuotaName is one half of a quota's entity: a user or a client id.
type QuotaName struct {
	Kind QuotaNameKind
	Name string // of QuotaNamed only
}

// QuotaNameKind says whom a QuotaName means. The numbers are stored.
type QuotaNameKind uint8

// The kinds. They are in the order in which entities are listed.
const (
	QuotaAny     QuotaNameKind = 0 // the entity does not tell by this half
	QuotaDefault QuotaNameKind = 1 // everyone who is not named
	QuotaNamed   QuotaNameKind = 2
)

// QuotaEntity is whom a quota is for: users by the name of their principal within the tenant, client ids as clients call themselves, or
// both together. At least one half is not QuotaAny.
type QuotaEntity struct {
	Tenant       string
	User, Client QuotaName
}

// ClientQuota is what was set for one entity; a rate of 0 is not set, and at least one is. Immutable.
type ClientQuota struct {
	Entity   QuotaEntity
	Producer int64 // bytes a second on each node
	Consumer int64
}

// Rate returns one of the rates, 0 if it is not set.
func (q *ClientQuota) Rate(r QuotaRate) int64 {
	if r == ConsumerByteRate {
		return q.Consumer
	}
	return q.Producer
}

// SetRate changes one of the rates; 0 removes it.
func (q *ClientQuota) SetRate(r QuotaRate, value int64) {
	if r == ConsumerByteRate {
		q.Consumer = value
	} else {
		q.Producer = value
	}
}

// Bounds of what a tenant may set.
const (
	MaxClientQuotas    = 10_000 // entities of one tenant: each of them is copied at every change
	MaxQuotaNameLength = 1024   // bytes of a user or client id
)

// TenantQuotas are the client quotas of one tenant: immutable, shared by images until one of them changes.
type TenantQuotas struct {
	tenant string
	list   []*ClientQuota // by entity; never empty
}

// List returns the quotas, sorted by entity. Shared: do not write to it. A nil TenantQuotas has none.
func (t *TenantQuotas) List() []*ClientQuota {
	if t == nil {
		return nil
	}
	return t.list
}

// Get returns what is set for exactly this entity, nil if nothing is. It does not allocate.
func (t *TenantQuotas) Get(user, client QuotaName) *ClientQuota {
	if t == nil {
		return nil
	}
	i, ok := findQuota(t.list, user, client)
	if !ok {
		return nil
	}
	return t.list[i]
}

func findQuota(list []*ClientQuota, user, client QuotaName) (int, bool) {
	return slices.BinarySearchFunc(list, QuotaEntity{User: user, Client: client}, func(q *ClientQuota, want QuotaEntity) int {
		return cmp.Or(compareQuotaNames(q.Entity.User, want.User), compareQuotaNames(q.Entity.Client, want.Client))
	})
}

// Find returns the quota that bounds a rate of a user's client, nil if none does. The first that sets the rate wins, in Kafka's order: the
// named user with the named client, with the default client, with any; then the default user in the same way; then the named client
// and the default client of any user. It does not allocate.
func (t *TenantQuotas) Find(rate QuotaRate, user, client string) *ClientQuota {
	if t == nil {
		return nil
	}
	named, id := QuotaName{QuotaNamed, user}, QuotaName{QuotaNamed, client}
	for _, u := range [...]QuotaName{named, {Kind: QuotaDefault}, {}} {
		for _, c := range [...]QuotaName{id, {Kind: QuotaDefault}, {}} {
			if q := t.Get(u, c); q != nil && q.Rate(rate) > 0 {
				return q
			}
		}
	}
	return nil
}

func compareQuotaNames(a, b QuotaName) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// Quotas returns the client quotas of a tenant, nil if none are set.
func (m *Image) Quotas(tenant string) *TenantQuotas {
	i, ok := m.findQuotas(tenant)
	if !ok {
		return nil
	}
	return m.quotas[i]
}

func (m *Image) findQuotas(tenant string) (int, bool) {
	return slices.BinarySearchFunc(m.quotas, tenant, func(t *TenantQuotas, tenant string) int { return cmp.Compare(t.tenant, tenant) })
}

// EachQuota calls yield for every quota, sorted by tenant and entity, until it returns false.
func (m *Image) EachQuota(yield func(*ClientQuota) bool) {
	for _, t := range m.quotas {
		for _, q := range t.list {
			if !yield(q) {
				return
			}
		}
	}
}

// QuotaCount is the number of client quotas over all tenants.
func (m *Image) QuotaCount() int {
	n := 0
	for _, t := range m.quotas {
		n += len(t.list)
	}
	return n
}

// PutQuota sets what an entity has, in place of what it had; a quota without rates removes the entity.
func (b *Builder) PutQuota(q ClientQuota) {
	i, known := b.m.findQuotas(q.Entity.Tenant)
	var list []*ClientQuota
	if known {
		list = b.m.quotas[i].list
	}
	j, there := findQuota(list, q.Entity.User, q.Entity.Client)
	empty := q.Producer == 0 && q.Consumer == 0
	if empty && !there {
		return
	}
	if b.ownQuotas == nil {
		b.ownQuotas, b.m.quotas = map[string]bool{}, slices.Clone(b.m.quotas)
	}
	if !b.ownQuotas[q.Entity.Tenant] {
		list = slices.Clone(list)
		b.ownQuotas[q.Entity.Tenant] = true
	}
	switch {
	case empty:
		list = slices.Delete(list, j, j+1)
	case there:
		list[j] = &q
	default:
		list = slices.Insert(list, j, &q)
	}
	next := &TenantQuotas{tenant: q.Entity.Tenant, list: list}
	switch {
	case len(list) == 0:
		b.m.quotas = slices.Delete(b.m.quotas, i, i+1)
	case known:
		b.m.quotas[i] = next
	default:
		b.m.quotas = slices.Insert(b.m.quotas, i, next)
	}
}

// QuotaChange changes what one entity has, all or nothing.
type QuotaChange struct {
	Entity QuotaEntity
	Rates  []RateChange
}

// RateChange sets one rate of an entity, or removes it with a value of 0.
type RateChange struct {
	Rate  QuotaRate
	Value int64 // bytes a second
}

// SetClientQuotas changes client quotas, each entity on its own terms. Items of the result carry no topic.
type SetClientQuotas struct {
	Changes      []QuotaChange
	ValidateOnly bool
}

func (SetClientQuotas) command() {}
