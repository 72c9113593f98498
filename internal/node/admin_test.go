package node

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// get asks the admin port for a path.
func get(ctx context.Context, addr, path string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

func TestAdminProbes(t *testing.T) {
	reg := newRegistry()
	a := newAdmin(reg, newMetrics(reg), zap.NewNop(), false)
	ln, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.serve(t.Context(), ln, zap.NewNop())
	defer func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}()
	check := func(path string, status int, body string) {
		t.Helper()
		gotStatus, gotBody, err := get(t.Context(), a.addr, path)
		if err != nil || gotStatus != status || !strings.Contains(gotBody, body) {
			t.Errorf("%s: got %d %q %v, want %d %q", path, gotStatus, gotBody, err, status, body)
		}
	}
	check("/live", 200, "live")
	check("/ready", 503, "starting")
	a.set(serving)
	check("/ready", 200, "ready")
	check("/metrics", 200, "felix_ready_state 1\n")
	a.set(draining)
	check("/ready", 503, "draining")
	check("/live", 200, "live")
	check("/metrics", 200, "felix_ready_state 0\n")
	check("/metrics", 200, "felix_build_info{")
	check("/metrics", 200, "go_goroutines")
	check("/metrics", 200, "process_resident_memory_bytes")
	check("/metrics", 200, `felix_drain_forced_total{subsystem="kafka"} 0`)
	check("/healthz", 404, "")
	check("/debug/pprof/", 404, "")

	b := newAdmin(reg, a.metrics, zap.NewNop(), true)
	ln, err = listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.serve(t.Context(), ln, zap.NewNop())
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	if status, _, err := get(t.Context(), b.addr, "/debug/pprof/goroutine?debug=1"); err != nil || status != 200 {
		t.Errorf("profiles on loopback: got %d, %v", status, err)
	}
}
