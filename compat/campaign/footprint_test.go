package main

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/felixlog/felix/compat/peer"
)

const metricsText = "# HELP go_goroutines Number.\n# TYPE go_goroutines gauge\ngo_goroutines 61\ngo_memstats_heap_alloc_bytes 3.5e+06\n" +
	"go_memstats_heap_alloc_bytes_total 9\nfelix_x{a=\"b\"} 1\nfelix_broken one\n"

// fakeServer is a server of which only process and metrics are asked for.
type fakeServer struct {
	peer.Peer
	pid     int
	metrics string
}

func (f fakeServer) PID() int { return f.pid }

func (f fakeServer) Bound(name string) string { return map[string]string{"metrics": f.metrics}[name] }

func TestFootprint(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		page   string
		want   string // part of the error; empty for none
	}{
		{"right", http.StatusOK, metricsText, ""},
		{"no-heap", http.StatusOK, "go_goroutines 61\n", "no metric go_memstats_heap_alloc_bytes"},
		{"no-goroutines", http.StatusOK, "go_memstats_heap_alloc_bytes 1\n", "no metric go_goroutines"},
		{"refused", http.StatusServiceUnavailable, metricsText, "503 Service Unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/metrics" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.page)) // the client sees what is missing
			}))
			defer site.Close()
			got, err := footprintOf(t.Context(), fakeServer{pid: os.Getpid(), metrics: strings.TrimPrefix(site.URL, "http://")})
			if text := errorText(err); tt.want == "" && text != "" || !strings.Contains(text, tt.want) {
				t.Fatalf("got %q, want %q", text, tt.want)
			}
			if err == nil && (got.resident < 1<<20 || got.descriptors < 3 || got.heap != 3.5e6 || got.goroutines != 61) {
				t.Errorf("this process has %+v", got)
			}
		})
	}
	t.Run("no-answer", func(t *testing.T) {
		site := httptest.NewServer(http.NotFoundHandler())
		site.Close()
		if _, err := footprintOf(t.Context(), fakeServer{pid: os.Getpid(), metrics: strings.TrimPrefix(site.URL, "http://")}); err == nil {
			t.Error("a server that is away has a footprint")
		}
	})
}

func TestProcessUse(t *testing.T) {
	// A process of its own: nobody else opens or closes files in it.
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `exec 7>"$1" 8>"$2"; echo ready; exec cat`, "sh", filepath.Join(dir, "seven"), filepath.Join(dir, "eight"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if resident, descriptors, err := processUse(cmd.Process.Pid); err != nil || resident <= 0 || descriptors < 5 {
		t.Errorf("%g bytes, %g descriptors, %v; want some, three and two, none", resident, descriptors, err)
	}
	in.Close()
	_ = cmd.Wait() // its output was not read to the end
	if _, _, err := processUse(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that has ended: %v", err)
	}
}

func TestReadMetrics(t *testing.T) {
	page, err := readMetrics(strings.NewReader(metricsText))
	if err != nil || len(page) != 4 || page["go_goroutines"] != 61 || page["go_memstats_heap_alloc_bytes"] != 3.5e6 || page[`felix_x{a="b"}`] != 1 {
		t.Errorf("read %v, %v", page, err)
	}
	if v, err := page.value("go_goroutines"); v != 61 || err != nil {
		t.Errorf("goroutines %g, %v", v, err)
	}
	if _, err := page.value("go_threads"); err == nil {
		t.Error("a metric that is not there was found")
	}
	broken := errors.New("broken")
	if _, err := readMetrics(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a page that breaks off: %v", err)
	}
}
