package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var rewrite = flag.Bool("rewrite", false, "rewrite generated documents instead of comparing them")

const openAPIDocument = "../../docs/openapi.json"

//go:generate go test -count=1 -run ^TestOpenAPIDocument$ . -rewrite

// TestOpenAPIDocument: docs/openapi.json is what the routes say, and what is served.
func TestOpenAPIDocument(t *testing.T) {
	text := append(bytes.Clone(documentText()), '\n')
	if *rewrite {
		if err := os.WriteFile(openAPIDocument, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(openAPIDocument)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, text) {
		t.Error("docs/openapi.json is not what the routes say: run make generate")
	}
	r := newRig(t)
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/openapi.json", "", ""), string(text))
}

// TestOpenAPIIsValid has a library of others judge the document.
func TestOpenAPIIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(documentText())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Errorf("version %s", doc.OpenAPI)
	}
	operations := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if operations[op.OperationID] {
				t.Errorf("%s %s: the operation %s is there twice", method, path, op.OperationID)
			}
			operations[op.OperationID] = true
		}
	}
	if len(operations) != len(documented()) {
		t.Errorf("%d operations for %d routes", len(operations), len(documented()))
	}
}

// TestRoutesAreDescribed: a route without a description of its parameters, body or answers is one that the document is silent about.
func TestRoutesAreDescribed(t *testing.T) {
	all := documented()
	for i := range all {
		rt := &all[i]
		if rt.gives == nil && len(rt.refuses) == 0 {
			t.Errorf("%s %s answers nothing", rt.method, rt.path)
		}
		if rt.summary == "" || (rt.access != open) != (rt.right != "") {
			t.Errorf("%s %s: summary %q, access %d, right %q", rt.method, rt.path, rt.summary, rt.access, rt.right)
		}
		for _, s := range strings.Split(rt.path, "/") {
			if name, ok := strings.CutPrefix(s, "{"); ok && pathParameters[strings.TrimSuffix(name, "}")] == "" {
				t.Errorf("%s: nothing says what %s is", rt.path, s)
			}
		}
	}
}

// strictSchemas compiles the schemas of a document that allows no fields in answers but those named.
var strictSchemas = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	text, err := json.Marshal(newDocument(documented(), true))
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	return c, c.AddResource("openapi.json", doc)
})

var schemas = answers{compiled: map[string]*jsonschema.Schema{}, seen: map[string]bool{}}

type answers struct {
	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
	seen     map[string]bool // "GET /v1/nodes 200": answers that tests got
}

// note remembers that a test got an answer of a route.
func (a *answers) note(rt *route, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[fmt.Sprint(rt.method, " ", rt.path, " ", status)] = true
}

// fits holds JSON against the schema at a place of the document.
func fits(text []byte, place ...string) error {
	for i, s := range place {
		place[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
	}
	at := "openapi.json#/" + strings.NewReplacer("{", "%7B", "}", "%7D", "*", "%2A").Replace(strings.Join(place, "/"))
	c, err := strictSchemas()
	if err != nil {
		return err
	}
	schemas.mu.Lock()
	defer schemas.mu.Unlock()
	s := schemas.compiled[at]
	if s == nil {
		if s, err = c.Compile(at); err != nil {
			return err
		}
		schemas.compiled[at] = s
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// holdAgainstDocument wants an answer to be one that the document has, and a body that was taken to be one that it allows.
func (r *rig) holdAgainstDocument(req *http.Request, sent []byte, res response) {
	r.t.Helper()
	if req.Method == http.MethodHead {
		return
	}
	table := r.s.api
	if strings.HasPrefix(req.URL.Path, bootstrapPrefix) {
		table = r.s.bootstrap
	}
	rt, _, _, err := table.find(req)
	elsewhere := res.status == http.StatusNotFound && strings.Contains(res.text, "there is nothing at this path") // it was the other listener
	if err != nil || elsewhere {
		if err := fits([]byte(res.text), "components", "schemas", "Error"); err != nil {
			r.t.Errorf("%s %s: %s: %v", req.Method, req.URL.Path, res, err)
		}
		return
	}
	status := strconv.Itoa(res.status)
	schemas.note(rt, res.status)
	body, success := rt.gives[res.status]
	method := strings.ToLower(rt.method)
	switch {
	case success && body == nil:
		if res.text != "" {
			r.t.Errorf("%s %s: %s has a body", rt.method, rt.path, res)
		}
	case success || slices.Contains(rt.statuses(), res.status):
		if err := fits([]byte(res.text), "paths", rt.path, method, "responses", status, "content", "application/json", "schema"); err != nil {
			r.t.Errorf("%s %s: %s: %v", rt.method, rt.path, res, err)
		}
	case res.status == http.StatusInternalServerError:
		if err := fits([]byte(res.text), "components", "schemas", "Error"); err != nil {
			r.t.Errorf("%s %s: %s: %v", rt.method, rt.path, res, err)
		}
	default:
		r.t.Errorf("%s %s: the document does not know %s", rt.method, rt.path, res)
	}
	if success && rt.takes != nil {
		if err := fits(sent, "paths", rt.path, method, "requestBody", "content", "application/json", "schema"); err != nil {
			r.t.Errorf("%s %s takes %s: %v", rt.method, rt.path, sent, err)
		}
	}
}

// everyStatus runs the tests and then looks whether each status that a route declares was answered in one of them, when all ran.
type everyStatus struct{ m *testing.M }

// Run runs the tests.
func (d everyStatus) Run() int {
	code := d.m.Run()
	run := flag.Lookup("test.run").Value.String()
	if code != 0 || run != "" && run != "." || flag.Lookup("test.list").Value.String() != "" ||
		flag.Lookup("test.skip").Value.String() != "" || flag.Lookup("test.fuzz").Value.String() != "" || len(schemas.seen) == 0 {
		return code
	}
	all := documented()
	for i := range all {
		rt := &all[i]
		statuses := rt.statuses()
		for status := range rt.gives {
			statuses = append(statuses, status)
		}
		slices.Sort(statuses)
		for _, status := range statuses {
			if name := fmt.Sprint(rt.method, " ", rt.path, " ", status); !schemas.seen[name] {
				fmt.Fprintf(os.Stderr, "no test got %s, which the document declares\n", name)
				code = 1
			}
		}
	}
	return code
}
