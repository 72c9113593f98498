package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/broker"
)

func TestQuotaSettings(t *testing.T) {
	tests := map[string]struct {
		env  []string
		want broker.PublishQuotas
	}{
		"none": {nil, broker.PublishQuotas{Burst: time.Second}},
		"all": {
			[]string{
				"FELIX_TENANT_PUBLISH_BYTES_PER_SEC=10MiB", "FELIX_TENANT_PUBLISH_MSGS_PER_SEC=500", "FELIX_TENANT_PUBLISH_BURST_MS=250",
				"FELIX_TENANT_PUBLISH_QUOTAS=acme:1048576:0, b.c-d:0:7,free:0:0",
			},
			broker.PublishQuotas{
				Default: broker.PublishRate{Bytes: 10 << 20, Messages: 500},
				Tenants: map[string]broker.PublishRate{"acme": {Bytes: 1 << 20}, "b.c-d": {Messages: 7}, "free": {}},
				Burst:   250 * time.Millisecond,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := Load(Sources{ReadFile: noFile, Environ: test.env})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, l.Config.Quotas); diff != "" {
				t.Error(diff)
			}
		})
	}
}
