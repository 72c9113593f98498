package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/felixlog/felix/compat/peer"
)

// footprint is what a running server takes.
type footprint struct {
	resident    float64 // bytes
	heap        float64 // bytes
	goroutines  float64
	descriptors float64
}

// footprintOf looks at the server's process and at its metrics.
func footprintOf(ctx context.Context, server peer.Peer) (footprint, error) {
	var f footprint
	var err error
	if f.resident, f.descriptors, err = processUse(server.PID()); err != nil {
		return f, err
	}
	page, err := metricsOf(ctx, server)
	if err != nil {
		return f, err
	}
	if f.goroutines, err = page.value("go_goroutines"); err != nil {
		return f, err
	}
	f.heap, err = page.value("go_memstats_heap_alloc_bytes")
	return f, err
}

// processUse is a process's resident memory in bytes, and how many descriptors it has open.
func processUse(pid int) (resident, descriptors float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("/proc/%d/statm is %q", pid, b)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return 0, 0, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return pages * float64(os.Getpagesize()), float64(len(open)), err
}

// metricsPage are a server's metrics by their names and labels.
type metricsPage map[string]float64

// value is a metric without labels; one that is not there is an error, not 0.
func (p metricsPage) value(name string) (float64, error) {
	v, ok := p[name]
	if !ok {
		return 0, fmt.Errorf("the server has no metric %s", name)
	}
	return v, nil
}

// metricsOf asks the server for its metrics.
func metricsOf(ctx context.Context, server peer.Peer) (metricsPage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.Bound("metrics")+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server's metrics: %s", res.Status)
	}
	return readMetrics(res.Body)
}

// readMetrics reads a page in Prometheus' text format.
func readMetrics(r io.Reader) (metricsPage, error) {
	out := metricsPage{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = v
		}
	}
	return out, lines.Err()
}
