package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// coder is one JSON object on its way in or out. A message describes its fields once, in the order in which they are written, and the
// coder either writes them or fills them in: so the two directions cannot drift apart.
//
// The names of its methods end in what absence means: nothing (the field must be there and must not be null), Opt (it may be absent,
// which differs from every value), If (absent and null are the zero value, which is left out), Or (the same, but always written).
type coder struct {
	encoding bool
	dst      []byte
	comma    bool // dst holds a member of this object already

	fields []field
	fault  Fault
	name   string // the field that fault is about
	// without are features that the two sides have not agreed on: what is read of their fields is nothing.
	without Features
}

// coders are kept because a message makes its coder escape, and the members of one are worth more than the message.
var coders = sync.Pool{New: func() any { return &coder{fields: make([]field, 0, 16)} }}

// getCoder returns a coder with nothing in it but room for members.
func getCoder() *coder { return coders.Get().(*coder) }

// putCoder gives a coder back. It must not keep what it has read or written alive.
func putCoder(c *coder) {
	clear(c.fields[:cap(c.fields)])
	*c = coder{fields: c.fields[:0]}
	if cap(c.fields) <= maxKeys {
		coders.Put(c)
	}
}

// open makes the coder ready to read the members of a checked object. It is false if value is no object.
func (c *coder) open(value []byte) bool {
	var fault Fault
	c.fields, fault = scanObject(value, c.fields)
	return fault == FaultNone
}

func (c *coder) fail(name string, f Fault) {
	if c.fault == FaultNone {
		c.fault, c.name = f, name
	}
}

// require makes a fault of a message that breaks a rule between its fields. What is written is not checked.
func (c *coder) require(ok bool, name string, f Fault) {
	if !ok && !c.encoding {
		c.fail(name, f)
	}
}

// find returns the value of a member, nil if it is absent or null.
func (c *coder) find(name string) []byte {
	v := c.any(name)
	if len(v) > 0 && v[0] == 'n' {
		return nil
	}
	return v
}

// any returns the value of a member, null too, nil if it is absent.
func (c *coder) any(name string) []byte {
	for i := range c.fields {
		if string(c.fields[i].key) == name {
			return c.fields[i].value
		}
	}
	return nil
}

// need is find for a member that must be there.
func (c *coder) need(name string) []byte {
	v := c.find(name)
	if v == nil {
		c.fail(name, FaultMissing)
	}
	return v
}

// key writes the name of a member.
func (c *coder) key(name string) {
	if c.comma {
		c.dst = append(c.dst, ',')
	}
	c.comma = true
	c.dst = append(append(append(c.dst, '"'), name...), '"', ':')
}

func (c *coder) str(name string, p *string) {
	if c.encoding {
		c.key(name)
		c.dst = appendQuoted(c.dst, *p)
	} else if v := c.need(name); v != nil {
		c.readString(name, v, p)
	}
}

func (c *coder) strIf(name string, p *string) {
	if c.encoding && *p == "" || !c.encoding && c.find(name) == nil {
		return
	}
	c.str(name, p)
}

func (c *coder) strOpt(name string, p *Opt[string]) {
	if c.present(name, &p.Set) {
		c.str(name, &p.Value)
	}
}

func (c *coder) readString(name string, v []byte, p *string) {
	if v[0] != '"' {
		c.fail(name, FaultField)
		return
	}
	*p = string(unquoteBytes(v))
}

// present says whether an optional member is to be read or written, and notes its presence when reading.
func (c *coder) present(name string, set *bool) bool {
	if !c.encoding {
		*set = c.find(name) != nil
	}
	return *set
}

type unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

func num[T unsigned](c *coder, name string, p *T) {
	if c.encoding {
		c.key(name)
		c.dst = strconv.AppendUint(c.dst, uint64(*p), 10)
		return
	}
	v := c.need(name)
	if v == nil {
		return
	}
	n, ok := parseUint(v)
	if !ok || n > uint64(^T(0)) {
		c.fail(name, FaultField)
		return
	}
	*p = T(n)
}

func numOpt[T unsigned](c *coder, name string, p *Opt[T]) {
	if c.present(name, &p.Set) {
		num(c, name, &p.Value)
	}
}

func numIf[T unsigned](c *coder, name string, p *T) {
	if c.encoding && *p == 0 {
		return
	}
	numOr(c, name, p)
}

func numOr[T unsigned](c *coder, name string, p *T) {
	if c.encoding || c.find(name) != nil {
		num(c, name, p)
	}
}

func (c *coder) signed(name string, p *int64) {
	if c.encoding {
		c.key(name)
		c.dst = strconv.AppendInt(c.dst, *p, 10)
		return
	}
	v := c.need(name)
	if v == nil {
		return
	}
	digits, negative := bytes.CutPrefix(v, []byte{'-'})
	n, ok := parseUint(digits)
	limit := uint64(1<<63 - 1)
	if negative {
		limit++
	}
	if !ok || n > limit || negative && n == 0 {
		c.fail(name, FaultField)
		return
	}
	if *p = int64(n); negative {
		*p = -*p
	}
}

func (c *coder) signedOpt(name string, p *Opt[int64]) {
	if c.present(name, &p.Set) {
		c.signed(name, &p.Value)
	}
}

func (c *coder) boolean(name string, p *bool) {
	if c.encoding {
		c.key(name)
		c.dst = strconv.AppendBool(c.dst, *p)
		return
	}
	switch v := c.need(name); string(v) {
	case "true":
		*p = true
	case "false":
		*p = false
	default:
		c.fail(name, FaultField)
	}
}

func (c *coder) booleanOr(name string, p *bool) {
	if c.encoding || c.find(name) != nil {
		c.boolean(name, p)
	}
}

func (c *coder) booleanIf(name string, p *bool) {
	if !c.encoding || *p {
		c.booleanOr(name, p)
	}
}

func (c *coder) booleanOpt(name string, p *Opt[bool]) {
	if c.present(name, &p.Set) {
		c.boolean(name, &p.Value)
	}
}

// word is a string out of a closed set.
func word[T ~string](c *coder, name string, p *T, set ...T) {
	s := string(*p)
	c.str(name, &s)
	if *p = T(s); !c.encoding && c.fault == FaultNone && !slices.Contains(set, *p) {
		c.fail(name, FaultField)
	}
}

func wordIf[T ~string](c *coder, name string, p *T, set ...T) {
	if c.encoding && *p == "" || !c.encoding && c.find(name) == nil {
		return
	}
	word(c, name, p, set...)
}

// bytes is a base64 field; what is read is never nil.
func (c *coder) bytes(name string, p *[]byte) {
	if c.encoding {
		c.key(name)
		c.dst = appendBase64(c.dst, *p)
	} else if v := c.need(name); v != nil {
		c.readBytes(name, v, p)
	}
}

// bytesOpt is a base64 field where nil is absent.
func (c *coder) bytesOpt(name string, p *[]byte) {
	if c.encoding && *p == nil || !c.encoding && c.find(name) == nil {
		return
	}
	c.bytes(name, p)
}

// bytesNull is a base64 field that must be there, where nil is null.
func (c *coder) bytesNull(name string, p *[]byte) {
	switch {
	case !c.encoding && c.any(name) == nil:
		c.fail(name, FaultMissing)
	case c.encoding && *p == nil:
		c.key(name)
		c.dst = append(c.dst, "null"...)
	default:
		c.bytesOpt(name, p)
	}
}

func (c *coder) readBytes(name string, v []byte, p *[]byte) {
	out, ok := decodeBase64(make([]byte, 0, max(0, base64.StdEncoding.DecodedLen(len(v)-2))), v)
	if !ok {
		c.fail(name, FaultField)
		return
	}
	*p = out
}

// payloads is the field of that name: an array of base64 strings.
func (c *coder) payloads(p *Payloads) {
	const name = "payloads"
	if c.encoding {
		c.key(name)
		c.dst = append(c.dst, '[')
		first := true
		for payload := range p.All() {
			if !first {
				c.dst = append(c.dst, ',')
			}
			first = false
			c.dst = appendBase64(c.dst, payload)
		}
		c.dst = append(c.dst, ']')
		return
	}
	v := c.need(name)
	if v == nil {
		return
	}
	// A payload takes less room than it did in base64 with its quotes and comma, unless it is shorter than four bytes.
	out := Payloads{encoded: make([]byte, 0, len(v))}
	whole := eachItem(v, func(item []byte) bool {
		if out.count == MaxPayloads {
			c.fail(name, FaultTooMany)
			return false
		}
		at := len(out.encoded)
		var ok bool
		out.encoded, ok = decodeBase64(append(out.encoded, 0, 0, 0, 0), item)
		if ok {
			binary.BigEndian.PutUint32(out.encoded[at:], uint32(len(out.encoded)-at-payloadPrefix))
			out.count++
		}
		return ok
	})
	if !whole {
		c.fail(name, FaultField)
		return
	}
	*p = out
}

// object is a member that is an object of its own.
func (c *coder) object(name string, describe func(*coder)) {
	if c.encoding {
		c.key(name)
		c.nested(describe)
	} else if v := c.need(name); v != nil {
		c.read(name, v, &coder{}, describe)
	}
}

// nested writes an object.
func (c *coder) nested(describe func(*coder)) {
	c.dst = append(c.dst, '{')
	c.comma = false
	describe(c)
	c.dst = append(c.dst, '}')
	c.comma = true
}

// read has describe read value with sub, and takes over its fault as that of a field of ours.
func (c *coder) read(name string, value []byte, sub *coder, describe func(*coder)) bool {
	if value[0] != '{' || !sub.open(value) {
		c.fail(name, FaultField)
		return false
	}
	if describe(sub); sub.fault != FaultNone {
		c.fail(name+"."+sub.name, sub.fault)
	}
	return sub.fault == FaultNone
}

// list is an array of objects. It grows as its items are read, since each of them is at least as long as its required fields.
func list[T any](c *coder, name string, p *[]T, describe func(*coder, *T)) {
	if c.encoding {
		c.key(name)
		c.dst = append(c.dst, '[')
		for i := range *p {
			if i > 0 {
				c.dst = append(c.dst, ',')
			}
			c.nested(func(c *coder) { describe(c, &(*p)[i]) })
		}
		c.dst = append(c.dst, ']')
		return
	}
	var sub coder
	c.items(name, func(v []byte) bool {
		var item T
		if !c.read(name, v, &sub, func(sub *coder) { describe(sub, &item) }) {
			return false
		}
		*p = append(*p, item)
		return true
	})
}

func listIf[T any](c *coder, name string, p *[]T, describe func(*coder, *T)) {
	if c.encoding && len(*p) == 0 || !c.encoding && c.find(name) == nil {
		return
	}
	list(c, name, p, describe)
}

// items reads an array that must be there.
func (c *coder) items(name string, yield func(v []byte) bool) {
	if v := c.need(name); v != nil && !eachItem(v, yield) {
		c.fail(name, FaultField)
	}
}

// numbers is an array of integers.
func numbers[T unsigned](c *coder, name string, p *[]T) {
	if c.encoding {
		c.key(name)
		c.dst = append(c.dst, '[')
		for i, n := range *p {
			if i > 0 {
				c.dst = append(c.dst, ',')
			}
			c.dst = strconv.AppendUint(c.dst, uint64(n), 10)
		}
		c.dst = append(c.dst, ']')
		return
	}
	c.items(name, func(v []byte) bool {
		n, ok := parseUint(v)
		if ok = ok && n <= uint64(^T(0)); ok {
			*p = append(*p, T(n))
		}
		return ok
	})
}

// strings is an array of strings.
func (c *coder) strings(name string, p *[]string) {
	if c.encoding {
		c.key(name)
		c.dst = append(c.dst, '[')
		for i, s := range *p {
			if i > 0 {
				c.dst = append(c.dst, ',')
			}
			c.dst = appendQuoted(c.dst, s)
		}
		c.dst = append(c.dst, ']')
		return
	}
	c.items(name, func(v []byte) bool {
		if v[0] != '"' {
			return false
		}
		*p = append(*p, string(unquoteBytes(v)))
		return true
	})
}

// union is a member that is either a plain word, or an object with one key and something behind it. Reading gives the word, or the key
// and its value; ok is false, with a fault, if the member is there and neither.
func (c *coder) union(name string) (tag string, value []byte, ok bool) {
	v := c.find(name)
	if v == nil {
		return "", nil, false
	}
	if v[0] == '"' {
		return string(unquoteBytes(v)), nil, true
	}
	var sub coder
	if v[0] != '{' || !sub.open(v) || len(sub.fields) != 1 {
		c.fail(name, FaultField)
		return "", nil, false
	}
	return string(sub.fields[0].key), sub.fields[0].value, true
}

// unionNumber is union for words and one key that has an integer behind it.
func (c *coder) unionNumber(name, key string, words ...string) (tag string, n uint64) {
	tag, value, ok := c.union(name)
	if !ok {
		return "", 0
	}
	if tag == key && value != nil {
		if n, ok = parseUint(value); ok {
			return tag, n
		}
	} else if value == nil && slices.Contains(words, tag) {
		return tag, 0
	}
	c.fail(name, FaultField)
	return "", 0
}

// tagged writes a one-key object with an integer behind its key.
func (c *coder) tagged(name, key string, n uint64) {
	c.key(name)
	c.nested(func(c *coder) { num(c, key, &n) })
}

// decodeBase64 appends what a checked value says: standard alphabet, padded, without line breaks, no stray bits at the end.
func decodeBase64(dst, value []byte) ([]byte, bool) {
	if value[0] != '"' {
		return dst, false
	}
	in := unquoteBytes(value)
	if bytes.IndexByte(in, '\n') >= 0 || bytes.IndexByte(in, '\r') >= 0 {
		return dst, false
	}
	dst, err := strictBase64.AppendDecode(dst, in)
	return dst, err == nil
}

var strictBase64 = base64.StdEncoding.Strict()

func appendBase64(dst, b []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}

// validText replaces what is not UTF-8: what is written must be, whatever a caller passes.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// appendQuoted appends s as a JSON string. Only what JSON wants escaped is: quote, backslash and control characters.
func appendQuoted(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	s = validText(s)
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(append(dst, s[start:i]...), '\\')
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, c)
		case '\b':
			dst = append(dst, 'b')
		case '\f':
			dst = append(dst, 'f')
		case '\n':
			dst = append(dst, 'n')
		case '\r':
			dst = append(dst, 'r')
		case '\t':
			dst = append(dst, 't')
		default:
			dst = append(dst, 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(dst, s[start:]...), '"')
}

// requestID is the message's request id, if it has one that can be read.
func (c *coder) requestID() (id Opt[uint64]) {
	id.Value, id.Set = parseUint(c.find("request_id"))
	return id
}
