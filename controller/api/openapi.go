package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// The OpenAPI document is made from the table of routes and from the types that the calls read and answer. Tests hold every answer that
// they get against it, so that a call cannot answer what it does not say.

// parameter is what a call reads from its query.
type parameter struct {
	name, about string
	schema      map[string]any
	repeats     bool
}

// either is an answer that has one of several forms.
type either []any

// pageOf is a listing's type, for the document: calls answer with listing.
type pageOf[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty" about:"left out on the last page; send it back as cursor, with the same filters"`
}

var pathParameters = map[string]string{
	"tenant": "name of a tenant", "owner": "name of the tenant of the shard", "namespace": "name of a namespace", "stream": "name of a stream", "cache": "name of a cache",
	"kid": "id of a signing key", "node": "id of a node", "shard": "number of a shard, from 0", "feature": "name of a feature",
}

// refusals are what the statuses of refusals mean.
var refusals = map[int]string{
	http.StatusBadRequest:            "invalid_request: path, query, body, name or value",
	http.StatusUnauthorized:          "unauthenticated: no token, one that is not accepted, or a tenant that does not exist",
	http.StatusForbidden:             "forbidden: the right is missing; the message names it",
	http.StatusNotFound:              "what is named does not exist; the caller had the right",
	http.StatusConflict:              "it contradicts the state; the code says how",
	http.StatusRequestEntityTooLarge: "too_large: the body has more than a mebibyte",
	http.StatusUnsupportedMediaType:  "unsupported_media_type: the body is not application/json",
	http.StatusServiceUnavailable:    "unavailable or draining; what was asked for may still take effect",
}

// documentText is the document of the routes, as JSON.
var documentText = sync.OnceValue(func() json.RawMessage {
	text, err := json.MarshalIndent(newDocument(documented(), false), "", "  ")
	if err != nil {
		return json.RawMessage("null") // maps of texts and numbers marshal
	}
	return text
})

func openAPI(*call) (answer, error) { return ok(documentText()), nil }

// documenter collects the schemas that a document refers to.
type documenter struct {
	schemas map[string]any
	strict  bool // no fields but those named: for tests
}

type object = map[string]any

func newDocument(table []route, strict bool) object {
	d := &documenter{schemas: object{}, strict: strict}
	paths := object{}
	for i := range table {
		rt := &table[i]
		item, there := paths[rt.path].(object)
		if !there {
			item = object{}
			if list := d.pathParameters(rt); len(list) > 0 {
				item["parameters"] = list
			}
			if rt.ofBootstrap() {
				item["servers"] = []any{object{"url": "http://127.0.0.1:9095", "description": "the bootstrap listener, which is off by default"}}
			}
			paths[rt.path] = item
		}
		item[strings.ToLower(rt.method)] = d.operation(rt)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Felix control API", "version": "1", "license": object{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
			"description": "Streams, caches, tenants, access rules, nodes and shards. Checks come in one order, and the first that fails decides the answer: " +
				"route, authentication, the body's shape, authorization, the body's values, existence, state. Unknown fields are ignored; null is the same as absent.",
		},
		"servers": []any{object{"url": "/"}},
		"paths":   paths,
		"components": object{
			"schemas": d.schemas,
			"securitySchemes": object{
				"token":     object{"type": "http", "scheme": "bearer", "description": "a Felix token for audience felix-controlplane"},
				"bootstrap": object{"type": "apiKey", "in": "header", "name": bootstrapHeader, "description": "the secret of the bootstrap listener"},
			},
		},
	}
}

func (d *documenter) pathParameters(rt *route) []any {
	var list []any
	for _, s := range strings.Split(rt.path, "/") {
		name, isName := strings.CutPrefix(s, "{")
		if !isName {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		list = append(list, object{
			"name": name, "in": "path", "required": true, "description": pathParameters[name], "schema": object{"type": "string"},
		})
	}
	return list
}

func (d *documenter) operation(rt *route) object {
	op := object{"operationId": rt.operation(), "summary": rt.summary, "responses": d.responses(rt), "tags": []string{rt.tag()}}
	switch {
	case rt.ofBootstrap():
		op["security"] = []any{object{"bootstrap": []string{}}}
	case rt.access == open:
		op["security"] = []any{}
	default:
		op["security"] = []any{object{"token": []string{}}}
	}
	if rt.right != "" {
		op["description"] = "Takes the right " + rt.right + "."
	}
	var list []any
	for _, p := range rt.query {
		entry := object{"name": p.name, "in": "query", "description": p.about, "schema": p.schema}
		if p.repeats {
			entry["schema"] = object{"type": "array", "items": p.schema}
		}
		list = append(list, entry)
	}
	if list != nil {
		op["parameters"] = list
	}
	if rt.takes != nil {
		op["requestBody"] = object{"required": true, "content": d.content(reflect.TypeOf(rt.takes), true)}
	}
	return op
}

func (d *documenter) content(t reflect.Type, asked bool) object {
	return object{"application/json": object{"schema": d.schema(t, asked)}}
}

// statuses are those of all refusals that a call can answer with by what its row says, besides internal errors.
func (rt *route) statuses() []int {
	list := rt.refuses
	if rt.access != open {
		list = append([]int{http.StatusUnauthorized}, list...)
	}
	if rt.right != "" {
		list = append([]int{http.StatusForbidden}, list...)
	}
	if rt.takes != nil {
		list = append([]int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, list...)
	}
	if rt.takes != nil || rt.query != nil || strings.Contains(rt.path, "{") {
		list = append([]int{http.StatusBadRequest}, list...)
	}
	if rt.method != http.MethodGet && rt.gives != nil {
		list = append([]int{http.StatusServiceUnavailable}, list...)
	}
	return list
}

func (d *documenter) responses(rt *route) object {
	refusal := d.content(reflect.TypeFor[errorBody](), false)
	out := object{"default": object{"description": "any other refusal: internal (500), method_not_allowed (405), headers too large (431)", "content": refusal}}
	for _, status := range rt.statuses() {
		out[strconv.Itoa(status)] = object{"description": refusals[status], "content": refusal}
	}
	for status, body := range rt.gives {
		entry := object{"description": http.StatusText(status)}
		switch forms := body.(type) {
		case nil:
		case either:
			var list []any
			for _, f := range forms {
				list = append(list, d.schema(reflect.TypeOf(f), false))
			}
			entry["content"] = object{"application/json": object{"schema": object{"oneOf": list}}}
		default:
			entry["content"] = d.content(reflect.TypeOf(body), false)
		}
		out[strconv.Itoa(status)] = entry
	}
	return out
}

// operation is the name of the call: that of its function.
func (rt *route) operation() string {
	full := runtime.FuncForPC(reflect.ValueOf(rt.handle).Pointer()).Name()
	return full[strings.LastIndexByte(full, '.')+1:]
}

// ofBootstrap says that a route is the bootstrap listener's.
func (rt *route) ofBootstrap() bool { return strings.HasPrefix(rt.path, bootstrapPrefix) }

// tag is what a route is about: the last collection in its path.
func (rt *route) tag() string {
	if rt.ofBootstrap() {
		return "bootstrap"
	}
	tag := "api"
	for _, s := range strings.Split(rt.path, "/") {
		switch s {
		case "system", "tenants", "signing-keys", "rbac", "namespaces", "streams", "caches", "nodes", "regions", "placement", "fleet":
			tag = s
		case "shard-moves", "shard-assignments":
			return "placement"
		case "jwks.json":
			tag = "signing-keys"
		}
	}
	return tag
}

// schema is the JSON schema of a type; that of a struct is put among the components and referred to. Of what is asked for, fields that may
// be left out may be null.
func (d *documenter) schema(t reflect.Type, asked bool) object {
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem(), asked)
	case reflect.Struct:
		name := schemaName(t)
		if _, there := d.schemas[name]; !there {
			d.schemas[name] = object{} // ends circles
			d.schemas[name] = d.structSchema(t, asked)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem(), asked)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem(), asked)}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Interface:
		return object{}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer", "format": "int64"}
	default:
		panic("api: " + t.String() + " has no schema") // tests make the document of all routes
	}
}

// schemaName is the name of a component: the type's without what says that it is a body.
func schemaName(t reflect.Type) string {
	name := t.Name()
	if strings.HasPrefix(name, "pageOf[") {
		return schemaName(t.Field(0).Type.Elem()) + "Page"
	}
	name = strings.TrimSuffix(name, "Body")
	return strings.ToUpper(name[:1]) + name[1:]
}

func (d *documenter) structSchema(t reflect.Type, asked bool) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue // its own fields are visible here
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		optional := options == "omitempty"
		properties[name] = d.fieldSchema(f, asked && optional)
		if !optional {
			required = append(required, name)
		}
	}
	s := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if d.strict && !asked {
		s["additionalProperties"] = false
	}
	return s
}

func (d *documenter) fieldSchema(f reflect.StructField, nullable bool) object {
	s := d.schema(f.Type, nullable)
	if about := f.Tag.Get("about"); about != "" {
		s["description"] = about
	}
	if words := f.Tag.Get("enum"); words != "" {
		list := []any{}
		for _, w := range strings.Split(words, ",") {
			list = append(list, w)
		}
		if nullable {
			list = append(list, nil)
		}
		s["enum"] = list
	}
	limits := map[string]string{"min": "minimum", "max": "maximum"}
	if s["type"] == "string" {
		limits = map[string]string{"min": "minLength", "max": "maxLength"}
	}
	for tag, keyword := range limits {
		if v, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64); err == nil {
			s[keyword] = v
		}
	}
	switch {
	case !nullable:
	case s["$ref"] != nil:
		s = object{"oneOf": []any{s, object{"type": "null"}}}
	default:
		s["type"] = []any{s["type"], "null"}
	}
	return s
}
