package kafkaproto

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// AlterClientQuotas, versions 0 and 1.
//
//	1  flexible
//
// Rules: Kafka request rules 4.15. Each entity is changed all or not at all; a null name is the default; with validate_only nothing changes.
// Which of several quotas of a client counts is Kafka's order: see cluster.TenantQuotas.
//
// Different from Kafka: quotas are of a tenant, and it takes tenant.manage. Only producer_byte_rate and consumer_byte_rate of users and client
// ids are enforced, so only they are taken: request_percentage, controller_mutation_rate and connection_creation_rate are INVALID_CONFIG,
// an entity of type "ip" is INVALID_REQUEST, both with a sentence. An entity that is named twice is refused.

var errEntityTwice = errcode.New(errcode.InvalidRequest, "the entity appears more than once in the request")

func handleAlterClientQuotas(c *call) {
	req := c.req.(*kmsg.AlterClientQuotasRequest)
	resp := c.response().(*kmsg.AlterClientQuotasResponse)
	errs := make([]error, len(req.Entries))
	seen := duplicates[cluster.QuotaEntity]{}
	changes := make([]cluster.QuotaChange, len(req.Entries))
	for i := range req.Entries {
		if changes[i], errs[i] = quotaChange(&req.Entries[i]); errs[i] == nil {
			seen.add(changes[i].Entity)
		}
	}
	var wanted []cluster.QuotaChange
	var at []int
	for i := range changes {
		switch {
		case errs[i] != nil:
		case seen.repeated(changes[i].Entity):
			errs[i] = errEntityTwice
		default:
			wanted, at = append(wanted, changes[i]), append(at, i)
		}
	}
	ctx, cancel := c.within(0)
	defer cancel()
	for k, err := range c.admin().AlterClientQuotas(ctx, c.caller(), wanted, req.ValidateOnly) {
		errs[at[k]] = err
	}
	resp.Entries = make([]kmsg.AlterClientQuotasResponseEntry, len(req.Entries))
	for i := range resp.Entries {
		out := &resp.Entries[i]
		out.Default()
		for _, e := range req.Entries[i].Entity {
			back := kmsg.NewAlterClientQuotasResponseEntryEntity()
			back.Type, back.Name = e.Type, e.Name
			out.Entity = append(out.Entity, back)
		}
		out.ErrorCode, out.ErrorMessage = c.describe(errs[i])
	}
	c.reply(resp)
}

func quotaChange(asked *kmsg.AlterClientQuotasRequestEntry) (cluster.QuotaChange, error) {
	var out cluster.QuotaChange
	for i := range asked.Entity {
		if err := addEntityPart(&out.Entity, asked.Entity[i].Type, asked.Entity[i].Name); err != nil {
			return out, err
		}
	}
	if len(asked.Entity) == 0 {
		return out, errcode.Newf(errcode.InvalidRequest, "the entity is empty")
	}
	for i := range asked.Ops {
		op := &asked.Ops[i]
		rate, err := cluster.ParseQuotaRate(op.Key)
		if err != nil {
			return out, err
		}
		change := cluster.RateChange{Rate: rate}
		if !op.Remove {
			if op.Value != math.Trunc(op.Value) || !(op.Value >= 1 && op.Value < math.MaxInt64) {
				return out, errcode.Newf(errcode.InvalidRequest, "quota %s must be a whole number above 0, not %g", op.Key, op.Value)
			}
			change.Value = int64(op.Value)
		}
		out.Rates = append(out.Rates, change)
	}
	return out, nil
}

func addEntityPart(e *cluster.QuotaEntity, kind string, name *string) error {
	var half *cluster.QuotaName
	switch kind {
	case entityUser:
		half = &e.User
	case entityClientID:
		half = &e.Client
	case entityIP:
		return errcode.Newf(errcode.InvalidRequest, "connections by address are bounded by the node's settings: quotas of type ip are not kept")
	default:
		return errcode.Newf(errcode.InvalidRequest, "unhandled client quota entity type %.64q", kind)
	}
	if half.Kind != cluster.QuotaAny {
		return errcode.Newf(errcode.InvalidRequest, "entity type %s appears twice in one entity", kind)
	}
	switch {
	case name == nil:
		half.Kind = cluster.QuotaDefault
	case *name == "":
		return errcode.Newf(errcode.InvalidRequest, "the name of the %s is empty; null stands for the default", kind)
	default:
		*half = cluster.QuotaName{Kind: cluster.QuotaNamed, Name: *name}
	}
	return nil
}
