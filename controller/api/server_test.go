package api

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/felixlog/felix/internal/cluster"
)

// serve runs the rig's server on a loopback port until the test ends.
func (r *rig) serve() (addr string) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.s.Serve(ln) }()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.s.Close(ctx); err != nil {
			r.t.Errorf("close: %v", err)
		}
		if err := <-ended; !errors.Is(err, ErrServerClosed) {
			r.t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

// raw sends bytes and returns the status line of what comes back.
func raw(t *testing.T, addr, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte(text)) // the server may have answered and hung up by then
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && line == "" {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func TestOnTheWire(t *testing.T) {
	r := newRig(t)
	addr := r.serve()
	token := r.operator()
	for _, c := range []struct{ name, text, want string }{
		{"probe", "GET /v1/system/live HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"},
		{"head", "HEAD /v1/system/live HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"},
		{"nodes", "GET /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: bearer " + token + "\r\n\r\n", "HTTP/1.1 200 OK"},
		{"long_header", "GET /v1/nodes HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 40<<10) + "\r\n\r\n", "HTTP/1.1 431 Request Header Fields Too Large"},
		{"dots", "GET /v1/../v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		{"encoded_slash", "GET /v1%2Fnodes HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		{"star", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found"},
		{"absolute", "GET http://x/v1/system/live HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"},
		{"garbage", "\x16\x03\x01\x00\x05hello\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		{"large_body", "POST " + nsPath + "/streams HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + r.admin(acme) + "\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n" +
			strings.Repeat("x", 2000000), "HTTP/1.1 413 Request Entity Too Large"},
		{"method", "BREW /v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := raw(t, addr, c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestConnectionLimit(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxConnections = 2 })
	addr := r.serve()
	const probe = "GET /v1/system/live HTTP/1.1\r\nHost: x\r\n\r\n"
	dial := func() (net.Conn, string) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write([]byte(probe))
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return conn, strings.TrimSpace(line)
	}
	one, first := dial()
	two, second := dial()
	three, third := dial()
	if first != "HTTP/1.1 200 OK" || second != first || third != "" {
		t.Errorf("got %q, %q, %q, want the third closed", first, second, third)
	}
	_ = three.Close()
	_ = one.Close()
	// The server notices the close of the first in its own time; until then there is no room.
	for {
		conn, line := dial()
		_ = conn.Close()
		if line != "" {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("no room after a connection was closed")
		}
	}
	_ = two.Close()
}

func TestHTTPS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *Options) {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	})
	addr := r.serve()
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	res, err := client.Get("https://" + addr + "/v1/system/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || string(text) != "{\"status\":\"ready\"}\n" {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if got := raw(t, addr, "GET /v1/system/live HTTP/1.1\r\nHost: x\r\n\r\n"); got != "HTTP/1.0 400 Bad Request" {
		t.Errorf("plain HTTP gets %q", got)
	}
}

// slowController holds proposals until it is told to go on.
type slowController struct {
	Controller
	entered, proceed chan struct{}
}

func (s *slowController) Propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error) {
	s.entered <- struct{}{}
	select {
	case <-s.proceed:
		return s.Controller.Propose(ctx, cmd)
	case <-ctx.Done():
		return cluster.Result{}, context.Cause(ctx)
	}
}

// TestBodyOfATenantBefore: a call that was let in for a tenant which is deleted while its body comes in changes nothing in the next tenant of
// that name.
func TestBodyOfATenantBefore(t *testing.T) {
	r := newRig(t)
	body, text := io.Pipe()
	req := httptest.NewRequest(http.MethodPost, "/v1/tenants/"+acme+"/rbac/policies", body)
	req.Header.Set("Authorization", "Bearer "+r.token(acme, "tenant.manage:tenant:"+acme, "rbac.policy.manage:tenant:"+acme))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		r.s.httpAPI.Handler.ServeHTTP(w, req)
		_ = body.Close()
	}()
	if _, err := io.WriteString(text, `{"subject":"p:before",`); err != nil { // it is read, so the checks are done
		t.Fatal(err)
	}
	r.propose(cluster.DeleteTenant{Name: acme})
	r.propose(cluster.CreateTenant{Name: acme, Key: newKey()})
	_, _ = io.WriteString(text, `"object":"tenant:`+acme+`","action":"tenant.manage"}`)
	_ = text.Close()
	<-answered
	if w.Code != http.StatusNotFound || r.c.Image().PolicyCount() != 0 {
		t.Errorf("got %d %s, and %d policies", w.Code, w.Body, r.c.Image().PolicyCount())
	}
}

// TestGracefulClose: readiness falls, and a call that runs is answered before Close returns.
func TestGracefulClose(t *testing.T) {
	slow := &slowController{entered: make(chan struct{}), proceed: make(chan struct{})}
	r := newRig(t, func(o *Options) { slow.Controller, o.Controller = o.Controller, slow })
	addr := r.serve()
	answered := make(chan string, 1)
	go func() {
		answered <- raw(t, addr, fmt.Sprintf("POST %s/streams HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"stream\":\"s\"}", nsPath, r.admin(acme)))
	}()
	<-slow.entered
	r.s.Drain()
	if res := r.want(http.StatusServiceUnavailable, http.MethodGet, "/v1/system/ready", "", ""); res.code() != codeDraining {
		t.Errorf("code %s", res.code())
	}
	r.want(http.StatusServiceUnavailable, http.MethodGet, "/v1/system/health", "", "")
	r.want(http.StatusOK, http.MethodGet, "/v1/system/live", "", "")
	closed := make(chan error, 1)
	go func() { closed <- r.s.Close(context.Background()) }()
	close(slow.proceed)
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if got := <-answered; got != "HTTP/1.1 201 Created" {
		t.Errorf("got %q", got)
	}
}

// TestForcedClose: when the time of Close runs out, it cuts off what runs and says so.
func TestForcedClose(t *testing.T) {
	slow := &slowController{entered: make(chan struct{}), proceed: make(chan struct{})}
	r := newRig(t, func(o *Options) { slow.Controller, o.Controller = o.Controller, slow })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.s.Serve(ln) }()
	answered := make(chan string, 1)
	go func() {
		answered <- raw(t, ln.Addr().String(), "DELETE "+nsPath+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+r.admin(acme)+"\r\n\r\n")
	}()
	<-slow.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if got := <-answered; strings.HasPrefix(got, "HTTP/1.1 2") {
		t.Errorf("got %q", got)
	}
	if err := <-ended; !errors.Is(err, ErrServerClosed) {
		t.Errorf("serve: %v", err)
	}
}

// TestStoreThatHangs: a call ends within the write timeout.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowController{entered: make(chan struct{}, 1), proceed: make(chan struct{})}
		r := newRig(t, func(o *Options) { slow.Controller, o.Controller = o.Controller, slow })
		start := time.Now()
		res := r.want(http.StatusServiceUnavailable, http.MethodPost, nsPath+"/streams", r.admin(acme), `{"stream":"s"}`)
		if took := time.Since(start); res.code() != codeUnavailable || took != 10*time.Second {
			t.Errorf("%s after %s", res, took)
		}
	})
}

// TestReadiness: the question is bounded, and its answer is kept for a second.
func TestReadiness(t *testing.T) {
	asked, problem := 0, error(nil)
	r := newRig(t, func(o *Options) {
		o.Ready = func(ctx context.Context) error {
			asked++
			if _, ok := ctx.Deadline(); !ok {
				t.Error("the question is not bounded")
			}
			return problem
		}
	})
	r.want(http.StatusOK, http.MethodGet, "/v1/system/ready", "", "")
	problem = errors.New("no leader is known")
	r.want(http.StatusOK, http.MethodGet, "/v1/system/ready", "", "")
	r.now = r.now.Add(time.Second)
	if res := r.want(http.StatusServiceUnavailable, http.MethodGet, "/v1/system/ready", "", ""); res.body["message"] != "no leader is known" {
		t.Errorf("%s", res)
	}
	r.want(http.StatusServiceUnavailable, http.MethodGet, "/v1/system/health", "", "")
	r.want(http.StatusOK, http.MethodGet, "/v1/system/live", "", "")
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
}

// TestConcurrentCreation: of many that make one name one gets 201, those that ask for the same 200, the others 409.
func TestConcurrentCreation(t *testing.T) {
	r := newRig(t)
	admin := r.admin(acme)
	var wg sync.WaitGroup
	statuses := make([]int, 40)
	for i := range statuses {
		wg.Go(func() {
			statuses[i] = r.do(http.MethodPost, nsPath+"/streams", admin, fmt.Sprintf(`{"stream":"s","shards":%d}`, 1+i%2)).status
		})
	}
	wg.Wait()
	count := map[int]int{}
	for _, s := range statuses {
		count[s]++
	}
	if count[http.StatusCreated] != 1 || count[http.StatusOK] != 19 || count[http.StatusConflict] != 20 {
		t.Errorf("statuses %v", count)
	}
}

func TestOptions(t *testing.T) {
	r := newRig(t)
	good := r.s.opts
	good.Registerer = nil
	for name, change := range map[string]func(*Options){
		"no_controller":         func(o *Options) { o.Controller = nil },
		"no_verifier":           func(o *Options) { o.Verifier = nil },
		"previous_token_alone":  func(o *Options) { o.Bootstrap = BootstrapOptions{Previous: "x"} },
		"tokens_without_rights": func(o *Options) { o.Bootstrap.Permissions = nil },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// TestRoutes keeps the table sound: each route once, a right for each that is not open, none shadowed by another.
func TestRoutes(t *testing.T) {
	seen := map[string]bool{}
	for _, rt := range apiRoutes {
		key := rt.method + " " + rt.path
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if rt.handle == nil || rt.summary == "" || !strings.HasPrefix(rt.path, "/v1/") {
			t.Errorf("%s is not filled", key)
		}
		if (rt.access == open) != (rt.right == "") {
			t.Errorf("%s: right %q", key, rt.right)
		}
		if (rt.access == byTenant || rt.access == byOperator) != strings.Contains(rt.path, "{tenant}") && rt.access != open {
			t.Errorf("%s is not for a tenant", key)
		}
	}
}
