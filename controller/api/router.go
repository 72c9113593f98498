package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// route is one row of the table.
type route struct {
	method  string
	path    string // "/v1/tenants/{tenant}": names in braces stand for one segment each
	access  access
	right   string // the right that is needed, for documents; "" none
	summary string // what it does, for documents
	handle  func(*call) (answer, error)

	// What the document says of it, and tests hold its answers against.
	query   []parameter // what it reads from the query
	takes   any         // a value of the type of its body; nil: it has none
	gives   map[int]any // a value of the type of the answer for each status of success; nil: no body
	refuses []int       // statuses of its own refusals, besides those that follow from the rest of the row

	segments []string
}

// router finds routes. It is immutable.
type router struct {
	routes []route
}

func newRouter(table []route) *router {
	r := &router{routes: slices.Clone(table)}
	for i := range r.routes {
		r.routes[i].segments = strings.Split(strings.TrimPrefix(r.routes[i].path, "/"), "/")
	}
	return r
}

// find returns the route of a request and the values of the names in its path. HEAD is served as GET is. Refusals: 400 for a segment that
// must not be decoded, 404 for no route, 405 with the methods that there are.
func (t *router) find(r *http.Request) (*route, map[string]string, []string, error) {
	segments, err := splitPath(r.URL)
	if err != nil {
		return nil, nil, nil, err
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var methods []string
	for i := range t.routes {
		rt := &t.routes[i]
		params, ok := rt.match(segments)
		if !ok {
			continue
		}
		if rt.method == method {
			return rt, params, nil, nil
		}
		methods = append(methods, rt.method)
	}
	if len(methods) > 0 {
		slices.Sort(methods)
		return nil, nil, methods, refuse(http.StatusMethodNotAllowed, codeMethodNotAllowed, "%.16q is not served here", r.Method)
	}
	return nil, nil, nil, notFound("there is nothing at this path")
}

func (rt *route) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(rt.segments) {
		return nil, false
	}
	var params map[string]string
	for i, want := range rt.segments {
		name, isName := strings.CutPrefix(want, "{")
		switch {
		case !isName && want != segments[i], isName && segments[i] == "":
			return nil, false
		case isName:
			if params == nil {
				params = map[string]string{}
			}
			params[strings.TrimSuffix(name, "}")] = segments[i]
		}
	}
	return params, true
}

// maxSegments is more than any route has.
const maxSegments = 16

// splitPath decodes a path segment by segment, once. A segment that holds a slash or NUL once decoded, or is a dot or two, is refused: it
// would be another path to whoever joins or cleans it.
func splitPath(u *url.URL) ([]string, error) {
	raw := strings.SplitN(strings.TrimPrefix(u.EscapedPath(), "/"), "/", maxSegments+1)
	if len(raw) > maxSegments {
		return nil, notFound("there is nothing at this path")
	}
	out := make([]string, len(raw))
	for i, s := range raw {
		decoded, err := url.PathUnescape(s)
		switch {
		case err != nil, !utf8.ValidString(decoded):
			return nil, invalid("segment %d of the path is not percent-encoded UTF-8", i+1)
		case strings.ContainsAny(decoded, "/\x00"), decoded == ".", decoded == "..":
			return nil, invalid("segment %d of the path holds a slash or NUL, or is a dot or two", i+1)
		}
		out[i] = decoded
	}
	return out, nil
}
