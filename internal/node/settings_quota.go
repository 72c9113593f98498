package node

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
)

func quotaSettings() []setting {
	return []setting{
		{
			Key: "tenant_publish_bytes_per_sec", Env: "FELIX_TENANT_PUBLISH_BYTES_PER_SEC", Kind: "bytes", Default: "0",
			Doc: "What every tenant may publish in a second, in bytes of batches as they are stored. A tenant over it is slowed down: what it " +
				"sent is written, and its connection is read again when it is back under, at most 5 s later. 0 is unlimited.",
			bind: func(c *Config) binding { return bytesOf(&c.Quotas.Default.Bytes, 0, maxBytes) },
		},
		{
			Key: "tenant_publish_msgs_per_sec", Env: "FELIX_TENANT_PUBLISH_MSGS_PER_SEC", Kind: "n", Default: "0",
			Doc:  "The same in records. 0 is unlimited.",
			bind: func(c *Config) binding { return countOf(&c.Quotas.Default.Messages) },
		},
		{
			Key: "tenant_publish_quotas", Env: "FELIX_TENANT_PUBLISH_QUOTAS", Kind: "list", Default: "",
			Doc: "Limits of single tenants instead of the two above, `tenant:bytes:records,tenant:bytes:records`, a second each; " +
				"0 is unlimited. A tenant may appear once.",
			bind: func(c *Config) binding { return quotasOf(&c.Quotas.Tenants) },
		},
		{
			Key: "tenant_publish_burst_ms", Env: "FELIX_TENANT_PUBLISH_BURST_MS", Kind: "ms", Default: "1000",
			Doc: "How far ahead of its rate a tenant may run after a pause.",
			bind: func(c *Config) binding {
				return durationOf(&c.Quotas.Burst, time.Millisecond, time.Millisecond, broker.MaxPublishBurst)
			},
		},
	}
}

// quotasOf takes tenant:bytes:records,tenant:bytes:records.
func quotasOf(p *map[string]broker.PublishRate) binding {
	return binding{
		set: func(s string) error {
			if s == "" {
				*p = nil
				return nil
			}
			out := map[string]broker.PublishRate{}
			for entry := range strings.SplitSeq(s, ",") {
				tenant, rate, err := parseQuota(strings.TrimSpace(entry))
				if err != nil {
					return fmt.Errorf("%q: %w", entry, err)
				}
				if _, twice := out[tenant]; twice {
					return fmt.Errorf("tenant %q appears twice", tenant)
				}
				out[tenant] = rate
			}
			*p = out
			return nil
		},
		get: func() string {
			entries := make([]string, 0, len(*p))
			for _, tenant := range slices.Sorted(maps.Keys(*p)) {
				r := (*p)[tenant]
				entries = append(entries, tenant+":"+formatBytes(r.Bytes)+":"+strconv.FormatInt(r.Messages, 10))
			}
			return strings.Join(entries, ",")
		},
	}
}

func parseQuota(entry string) (tenant string, rate broker.PublishRate, err error) {
	fields := strings.Split(entry, ":")
	if len(fields) != 3 {
		return "", rate, errors.New("an entry is tenant:bytes:records (entries are separated by commas)")
	}
	if err := cluster.ValidateName("tenant", fields[0]); err != nil {
		return "", rate, err
	}
	if rate.Bytes, err = parseBytes(fields[1]); err != nil {
		return "", rate, err
	}
	if rate.Messages, err = parseCount(fields[2]); err != nil {
		return "", rate, err
	}
	if rate.Bytes < 0 || rate.Messages < 0 {
		return "", rate, errors.New("a rate is negative")
	}
	return fields[0], rate, nil
}

// countOf takes a whole number that may be larger than an int on a small machine.
func countOf(p *int64) binding {
	return binding{
		set: func(s string) error {
			n, err := parseCount(s)
			if err != nil {
				return err
			}
			if n < 0 {
				return fmt.Errorf("%d is outside 0 to %d", n, int64(math.MaxInt64))
			}
			*p = n
			return nil
		},
		get: func() string { return strconv.FormatInt(*p, 10) },
	}
}

func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}
