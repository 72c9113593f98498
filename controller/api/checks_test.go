package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/cluster"
)

// TestCheck3 is check 3 of the control API's section 14 as far as one instance has it: of many who make one thing at once, one makes it, the
// others learn that it is there, and all see the same.
func TestCheck3(t *testing.T) {
	const callers = 8
	r := newRig(t)
	for _, c := range []struct {
		name, path, token, body string
		others                  int
	}{
		{"stream", nsPath + "/streams", r.ruler(acme), `{"stream":"s","shards":3}`, 200},
		{"cache", nsPath + "/caches", r.ruler(acme), `{"cache":"s","shards":3}`, 200},
		{"resources", nsPath + "/resources", r.ruler(acme), `{"streams":[{"stream":"a"},{"stream":"b"}],"caches":[{"cache":"a"}]}`, 200},
		{"namespace", "/v1/tenants/acme/namespaces", r.ruler(acme), `{"namespace":"n2"}`, 409},
		{"tenant", "/v1/tenants", r.operator(), `{"tenant_id":"new"}`, 409},
		{"policy", rulesPath + "policies", r.ruler(acme), policyText("role:r", "tenant:acme", "rbac.view"), 200},
		{"grouping", rulesPath + "groupings", r.ruler(acme), `{"user":"p:u","role":"role:r"}`, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			var wg sync.WaitGroup
			statuses := make([]int, callers)
			for i := range callers {
				wg.Go(func() {
					w := httptest.NewRecorder()
					r.s.httpAPI.Handler.ServeHTTP(w, request(http.MethodPost, c.path, c.token, c.body))
					statuses[i] = w.Code
				})
			}
			wg.Wait()
			made := 0
			for _, s := range statuses {
				switch s {
				case http.StatusCreated:
					made++
				case c.others:
				default:
					t.Errorf("status %d", s)
				}
			}
			if made != 1 {
				t.Errorf("%d made it: %v", made, statuses)
			}
		})
	}
}

// TestCheck3Configurations: of two who make one name otherwise, the second is told, and what the first made stays.
func TestCheck3Configurations(t *testing.T) {
	r := newRig(t)
	admin := r.ruler(acme)
	for round := range 20 {
		var wg sync.WaitGroup
		var statuses [2]int
		for i := range statuses {
			wg.Go(func() {
				w := httptest.NewRecorder()
				body := fmt.Sprintf(`{"stream":"s%d","shards":%d}`, round, i+1)
				r.s.httpAPI.Handler.ServeHTTP(w, request(http.MethodPost, nsPath+"/streams", admin, body))
				statuses[i] = w.Code
			})
		}
		wg.Wait()
		shards := len(r.c.Image().Topic(acme, "ns", fmt.Sprint("s", round)).Partitions)
		if want := [2]int{201, 409}; statuses != want && statuses != [2]int{409, 201} || statuses[shards-1] != 201 {
			t.Errorf("statuses %v, %d shards", statuses, shards)
		}
	}
}

// silent is a controller whose log does not answer.
type silent struct{ Controller }

func (silent) Propose(ctx context.Context, _ cluster.Command) (cluster.Result, error) {
	<-ctx.Done()
	return cluster.Result{}, ctx.Err()
}

// TestCheck7 is check 7 of the control API's section 14: while the store does not answer, every call that changes something ends within its
// bound with 503, reads go on, nothing hangs, and liveness stays 200.
func TestCheck7(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.WriteTimeout = 50 * time.Millisecond
		o.Controller = silent{o.Controller}
		o.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		o.ReadyTimeout = 50 * time.Millisecond
	})
	fillMatrix(r)
	for i := range apiRoutes {
		rt := &apiRoutes[i]
		e, there := endpoints[rt.method+" "+rt.path]
		if !there || rt.gives == nil {
			continue
		}
		missing := rt.operation() == "createTenant" || rt.operation() == "createPolicy" || rt.operation() == "createGrouping"
		path, body := e.call(rt.path, matrixKey.ID, missing)
		began := time.Now()
		res := r.do(rt.method, path, r.tokenFor(rt), body)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s %s took %s", rt.method, path, took)
		}
		switch {
		case rt.method == http.MethodGet && res.status != http.StatusOK:
			t.Errorf("%s %s: %s", rt.method, path, res)
		case rt.method != http.MethodGet && (res.status != http.StatusServiceUnavailable || res.code() != codeUnavailable):
			t.Errorf("%s %s: %s", rt.method, path, res)
		}
	}
	r.want(http.StatusOK, http.MethodGet, "/v1/system/live", "", "")
	r.want(http.StatusServiceUnavailable, http.MethodGet, "/v1/system/ready", "", "")
	r.want(http.StatusOK, http.MethodGet, "/v1/openapi.json", "", "")
}

// TestAnswersOfARunningServer does every call of the matrix over a connection and holds the answers against the document.
func TestAnswersOfARunningServer(t *testing.T) {
	for _, missing := range []bool{false, true} {
		r, key := matrixRig(t)
		addr := r.serve()
		// What deletes comes last, what holds most at the very end.
		var last []*route
		for i := range apiRoutes {
			if rt := &apiRoutes[i]; rt.method == http.MethodDelete {
				last = append(last, rt)
			} else {
				r.overTheWire(addr, rt, key, missing)
			}
		}
		slices.SortStableFunc(last, func(a, b *route) int { return len(b.path) - len(a.path) })
		for _, rt := range last {
			r.overTheWire(addr, rt, key, missing)
		}
	}
}

func (r *rig) overTheWire(addr string, rt *route, key string, missing bool) {
	r.t.Helper()
	path, body := endpoints[rt.method+" "+rt.path].call(rt.path, key, missing)
	token := r.tokenFor(rt)
	req, err := http.NewRequestWithContext(r.t.Context(), rt.method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", rt.method, path, err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		r.t.Fatalf("%s %s: %v", rt.method, path, err)
	}
	res := response{status: resp.StatusCode, header: resp.Header, text: strings.TrimSpace(string(text))}
	if kind := resp.Header.Get("Content-Type"); res.text != "" && kind != "application/json" {
		r.t.Errorf("%s %s: content type %q", rt.method, path, kind)
	}
	if res.status >= http.StatusInternalServerError && rt.gives != nil || !missing && res.status == http.StatusUnauthorized {
		r.t.Errorf("%s %s: %s", rt.method, path, res)
	}
	r.holdAgainstDocument(req, []byte(body), res)
}
