package api

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func FuzzBody(f *testing.F) {
	for _, s := range []string{
		`{"stream":"s","shards":3,"retention":{"max_age_seconds":1},"x":[1,"a",null,true,{"y":[]}]}`, `{"a":1,"a":2}`, `[]`, `{`, `{"a":"\ud800"}`, `{"":{}}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseBody(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Errorf("%q is not JSON and is read as %v", text, b)
		}
		// What was read is what the standard decoder reads.
		again, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseBody(again); err != nil && !strings.Contains(err.Error(), "twice") {
			t.Errorf("%q became %q: %v", text, again, err)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/v1/tenants/a%2Fb", "/v1/../x", "//", "/%00", "/v1/tenants/acme/namespaces/ns/streams/s", "/a%ff", "/%252F"} {
		f.Add(s)
	}
	router := newRouter(apiRoutes)
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		segments, err := splitPath(u)
		if err != nil {
			return
		}
		for _, s := range segments {
			if strings.ContainsAny(s, "/\x00") || s == "." || s == ".." {
				t.Errorf("%q has the segment %q", path, s)
			}
		}
		for i := range router.routes {
			if params, ok := router.routes[i].match(segments); ok && strings.Count(u.EscapedPath(), "/") != strings.Count(router.routes[i].path, "/") {
				t.Errorf("%q is taken for %s with %v", path, router.routes[i].path, params)
			}
		}
	})
}

func TestBodyValues(t *testing.T) {
	b, err := parseBody([]byte(`{"n":5,"big":9223372036854775808,"f":1.5,"t":"x","no":null,"l":["a",1],"o":{"y":1},"lo":[{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := b.number("n", 0, 5); v != 5 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if v, err := b.number("no", 7, 5); v != 7 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	for _, name := range []string{"big", "f", "t", "l"} {
		if _, err := b.number(name, 0, 1<<62); err == nil {
			t.Errorf("%s is a number", name)
		}
	}
	if _, there, err := b.texts("no"); there || err != nil {
		t.Errorf("null is a list: %t, %v", there, err)
	}
	if _, _, err := b.texts("l"); err == nil {
		t.Error("a list with a number is one of texts")
	}
	if _, err := b.object("t"); err == nil {
		t.Error("a text is an object")
	}
	if list, err := b.objects("lo"); len(list) != 1 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.name("no"); err == nil {
		t.Error("null is a name")
	}
}
