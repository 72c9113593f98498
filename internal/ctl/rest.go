package ctl

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/felixlog/felix/auth"
)

const (
	// maxAnswerBytes bounds an answer of the control API: a page of the largest objects has less.
	maxAnswerBytes = 64 << 20
	// pageLimit is how many items a listing asks for at once.
	pageLimit = 1000
)

// control is one command's way to the control API.
type control struct {
	app    *app
	base   string // scheme, host and path without a slash at the end
	http   *http.Client
	token  string
	tenant string
}

// control makes it from the settings; nothing is dialled. The caller closes it.
func (a *app) control() (*control, error) {
	u, err := url.Parse(a.controlURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, usageErrorf("--controlplane-url %q is not http(s)://host:port", a.controlURL)
	}
	if a.controlToken == "" && a.controlTokenFile == "" {
		return nil, usageErrorf("no token for the control API: give --controlplane-token-file, or a context that has one (a development node " +
			"writes one: --config data/dev/felixctl.toml)")
	}
	c := &control{app: a, base: strings.TrimSuffix(u.String(), "/")}
	if c.token, err = secret(a.controlToken, a.controlTokenFile, "controlplane-token-file"); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usageErrorf("the token for the control API holds characters that no token has")
	}
	if c.tenant, err = a.tenantOf(c.token); err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := tlsFiles(conf, a.controlCAFile, "controlplane-ca-file", a.clientCertFile, a.clientKeyFile); err != nil {
		return nil, err
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		a.warn("the token goes to %s in clear text: use https", u.Host)
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: a.timeout}).DialContext, TLSClientConfig: conf, ForceAttemptHTTP2: true,
		},
		// A token is for one server: it does not go where that one points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *control) close() { c.http.CloseIdleConnections() }

// path makes a path of segments, each of which may hold anything.
func path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// inTenant is a path below the tenant, inNamespace one below the namespace.
func (c *control) inTenant(segments ...string) string {
	return path(append([]string{"v1", "tenants", c.tenant}, segments...)...)
}

func (c *control) inNamespace(segments ...string) string {
	return c.inTenant(append([]string{"namespaces", c.app.namespace}, segments...)...)
}

// noRoute is the server's sentence for a path that it does not have; other answers 404 are about what the path names.
const noRoute = "there is nothing at this path"

// apiRefusal is an answer of the control API that is no success.
type apiRefusal struct {
	Status  int
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is the server's sentence.
func (e *apiRefusal) Error() string { return e.Message }

// do makes one call within the time-out. in, if not nil, goes out as JSON; out, if not nil, takes the answer.
func (c *control) do(ctx context.Context, method, path string, in, out any) error {
	_, err := c.call(ctx, method, path, in, out)
	return err
}

// call is do, and tells the status of a success.
func (c *control) call(ctx context.Context, method, path string, in, out any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.app.timeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return 0, usageErrorf("--controlplane-url: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "felixctl/"+Version)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, c.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or not worth it
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return 0, c.unreachable(ctx, err)
	}
	if len(text) > maxAnswerBytes {
		return 0, fmt.Errorf("the answer of %s has more than %d bytes", c.base, maxAnswerBytes)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, c.refused(resp, text)
	}
	if out == nil {
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return 0, fmt.Errorf("%s answers with something else than this felixctl understands: %w", c.base, err)
	}
	return resp.StatusCode, nil
}

// unreachable says why nobody answered.
func (c *control) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return ctx.Err()
	}
	var out *url.Error
	if errors.As(err, &out) {
		err = out.Err
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var plain tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return unreachableErrorf("no answer from the control API at %s within %s: it hangs or is overloaded; --timeout waits longer", c.base, c.app.timeout)
	case errors.As(err, &unknown):
		return unreachableErrorf("the certificate of %s is signed by nobody known here: name its authority with --controlplane-ca-file", c.base)
	case errors.As(err, &name):
		return unreachableErrorf("the certificate of %s is for another name: %w", c.base, err)
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return unreachableErrorf("the server at %s does not speak TLS: use http://", c.base)
	}
	return unreachableErrorf("no control API answers at %s (%w): start a node with `felix serve`, or name another with --controlplane-url", c.base, err)
}

// refused turns an answer that is no success into a sentence that says what to do.
func (c *control) refused(resp *http.Response, text []byte) error {
	no := &apiRefusal{Status: resp.StatusCode}
	if err := json.Unmarshal(text, no); err != nil || no.Message == "" {
		// Something else answers: a proxy, or another server.
		return refusedErrorf("%s answers %s and nothing that a control API says: check --controlplane-url", c.base, resp.Status)
	}
	no.Status = resp.StatusCode
	status, advice := exitRefused, ""
	switch no.Status {
	case http.StatusUnauthorized:
		no.Message, advice = "the control API does not accept the token, or the tenant does not exist", c.tokenAdvice()
	case http.StatusNotFound:
		status = exitMissing
		if no.Message == noRoute {
			status, advice = exitRefused, "this server does not have that yet, or --controlplane-url has a path too many"
		}
	case http.StatusServiceUnavailable:
		status, advice = exitUnreachable, "try again, and look whether it did take effect"
	case http.StatusInternalServerError:
		status = exitFailure
	}
	message := no.Message
	if advice != "" {
		message += ": " + advice
	}
	return &statusError{status: status, err: &sentence{text: message + " (" + codeOf(no) + ")", cause: no}}
}

func codeOf(no *apiRefusal) string {
	return strconv.Itoa(no.Status) + " " + no.Code
}

// tokenAdvice says what is wrong with the token, as far as it can be seen from here.
func (c *control) tokenAdvice() string {
	return tokenAdvice(c.token, auth.AudienceControlPlane, c.tenant)
}

func tokenAdvice(token, audience, tenant string) string {
	said, err := auth.Look(token)
	switch {
	case err != nil:
		return "what was sent is no Felix token (" + auth.DetailOf(err) + ")"
	case said.Audience != audience:
		return fmt.Sprintf("the token is for audience %s, and this takes one for %s", said.Audience, audience)
	case !time.Now().Before(said.Expires):
		return "the token has expired at " + said.Expires.UTC().Format(time.RFC3339)
	case said.Tenant != tenant:
		return fmt.Sprintf("the token is of tenant %s, and --tenant is %s", said.Tenant, tenant)
	default:
		return "felixctl token show says what is in the token"
	}
}

// pages goes through a listing to its end, page by page. Each page has the time-out for itself.
func pages[T any](ctx context.Context, c *control, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := url.Values{"limit": {strconv.Itoa(pageLimit)}}
		for k, v := range query {
			q[k] = v
		}
		for {
			var page struct {
				Items []T    `json:"items"`
				Next  string `json:"next_cursor"`
			}
			if err := c.do(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &page); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			if page.Next == q.Get("cursor") {
				var none T
				yield(none, errors.New("the listing does not move on: the server gives one cursor twice"))
				return
			}
			q.Set("cursor", page.Next)
		}
	}
}
