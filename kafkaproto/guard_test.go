package kafkaproto

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill gives every field that kmsg knows a value, slices a few elements.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "UnknownTags" || f.Name == "Version" {
				continue
			}
			fill(r, v.Field(i))
		}
	case reflect.Slice:
		n := 1 + r.IntN(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Pointer:
		if r.IntN(3) == 0 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.String:
		v.SetString([]string{"", "a", "some.topic-name"}[r.IntN(3)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(int8(r.Uint32())))
	case reflect.Uint8:
		v.SetUint(uint64(r.Uint32() & 0xff))
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		panic("a kind that kmsg did not use: " + v.Kind().String())
	}
}

// guarded are the rows whose requests the guard reads.
func guarded() []*api {
	var out []*api
	for _, rows := range servedAPIs(true) {
		for i := range rows {
			if !rows[i].raw {
				out = append(out, &rows[i])
			}
		}
	}
	return out
}

func TestSchemasMatchKmsg(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, a := range guarded() {
		for version := a.min; version <= a.max; version++ {
			for range 20 {
				req := kmsg.RequestForKey(a.key)
				fill(r, reflect.ValueOf(req).Elem())
				req.SetVersion(version)
				if got := req.IsFlexible(); got != a.isFlexible(version) {
					t.Fatalf("%s v%d: flexible %v in kmsg", a.name, version, got)
				}
				body := req.AppendTo(nil)
				schema, ok := schemaOf(a.key)
				if !ok {
					t.Fatalf("%s has no schema", a.name)
				}
				if schema.flexible != a.flexible {
					t.Fatalf("%s: schema flexible from %d, table from %d", a.name, schema.flexible, a.flexible)
				}
				s := scanner{r: wireReader{b: body}, version: version, flexible: version >= schema.flexible}
				s.structure(schema.fields, true)
				if s.r.bad || len(s.r.b) != 0 {
					t.Fatalf("%s v%d: bad %v, %d bytes left of %x", a.name, version, s.r.bad, len(s.r.b), body)
				}
				for cut := range len(body) {
					if _, err := scanRequest(a.key, version, body[:cut]); err == nil {
						t.Fatalf("%s v%d: the first %d of %d bytes pass", a.name, version, cut, len(body))
					}
				}
			}
		}
	}
}

// decodedSize is what the elements of all slices below v take.
func decodedSize(v reflect.Value) (n int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n += decodedSize(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 0 // points into the request
		}
		n += int64(v.Len()) * int64(v.Type().Elem().Size())
		for i := range v.Len() {
			n += decodedSize(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			n += int64(v.Type().Elem().Size()) + decodedSize(v.Elem())
		}
	case reflect.String:
		n += int64(v.Len())
	default: // counted with its struct
	}
	return n
}

func TestGuardCountsWhatDecodingTakes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, a := range guarded() {
		for version := a.min; version <= a.max; version++ {
			req := kmsg.RequestForKey(a.key)
			fill(r, reflect.ValueOf(req).Elem())
			req.SetVersion(version)
			body := req.AppendTo(nil)
			counted, err := scanRequest(a.key, version, body)
			if err != nil {
				t.Fatal(err)
			}
			back := kmsg.RequestForKey(a.key)
			back.SetVersion(version)
			if err := back.ReadFrom(body); err != nil {
				t.Fatal(err)
			}
			if got := decodedSize(reflect.ValueOf(back).Elem()); got > counted+64 {
				t.Errorf("%s v%d: decodes to %d bytes, counted %d", a.name, version, got, counted)
			}
		}
	}
}

func TestGuardRefuses(t *testing.T) {
	flexibleMetadata := func(rest ...byte) []byte { return append([]byte{1, 1, 0, 0}, rest...) }
	cases := []struct {
		name    string
		key     int16
		version int16
		body    []byte
	}{
		{"array count above the bytes left", 3, 1, []byte{0, 0, 1, 0, 0, 1, 'a'}},
		{"array count negative", 3, 1, []byte{0xff, 0xff, 0xff, 0xfe}},
		{"compact count of 2^32-1", 3, 9, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}},
		{"tag count of 2^32-1", 3, 9, flexibleMetadata(0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"tag longer than the body", 3, 9, flexibleMetadata(1, 5, 100)},
		{"tag count in an empty ApiVersions", 18, 3, []byte{2, 'a', 2, 'b', 0x80, 0x80, 0x80, 0x80, 0x01}},
		{"overlong varint", 3, 9, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
		{"string length negative", 17, 0, []byte{0xff, 0xfe}},
		{"no schema", 99, 0, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := scanRequest(c.key, c.version, c.body); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestGuardBoundsAmplification(t *testing.T) {
	// 8 MiB of the smallest elements: empty topic names of two bytes.
	body := make([]byte, 8<<20)
	body[1] = 0x3f
	body[2], body[3] = 0xff, 0x00
	if _, err := scanRequest(3, 1, body); err == nil {
		t.Error("a Metadata request for four million topics was accepted")
	}
}

func FuzzRequest(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, rows := range servedAPIs(true) {
		for i := range rows {
			a := &rows[i]
			for version := a.min; version <= a.max; version++ {
				req := kmsg.RequestForKey(a.key)
				fill(r, reflect.ValueOf(req).Elem())
				req.SetVersion(version)
				f.Add(a.key, version, req.AppendTo(nil))
			}
		}
	}
	byKey := map[int16]api{}
	for _, rows := range servedAPIs(true) {
		for _, a := range rows {
			byKey[a.key] = a
		}
	}
	srv := &Server{requests: newBudget(1 << 40), life: newLifetime()}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a, ok := byKey[key]
		if !ok || !a.serves(version) {
			return
		}
		accepted := false
		switch key {
		case keyProduce:
			p := &produce{api: &a, version: version}
			_, accepted = p.decode(body)
			if len(p.parts)*5 > len(body) {
				t.Fatalf("%d partitions from %d bytes", len(p.parts), len(body))
			}
		case keyFetch:
			q := &fetch{api: &a, version: version, srv: srv}
			_, accepted = q.decode(body)
			if len(q.parts)*16 > len(body) {
				t.Fatalf("%d partitions from %d bytes", len(q.parts), len(body))
			}
			srv.requests.free(&q.lease)
		default:
			decoded, err := scanRequest(key, version, body)
			accepted = err == nil
			if accepted && decoded > maxDecoded {
				t.Fatalf("%d bytes decoded", decoded)
			}
		}
		if !accepted {
			return
		}
		// What the guard lets through kmsg decodes too, and encodes to something the guard lets through again.
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if err := req.ReadFrom(body); err != nil {
			return // kmsg may be stricter: non-nullable strings, for one
		}
		again := req.AppendTo(nil)
		if key == keyProduce || key == keyFetch {
			return
		}
		if _, err := scanRequest(key, version, again); err != nil {
			t.Fatalf("%s v%d: re-encoded %x is refused", a.name, version, again)
		}
	})
}
