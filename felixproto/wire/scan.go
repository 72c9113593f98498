package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxDepth is how deep JSON may be nested. The deepest message of the protocol has four levels.
	maxDepth = 32
	// maxKeys is how many keys one JSON object may have. The widest object of the protocol has sixteen. It keeps the search for
	// duplicates, which compares each key with all before it, linear in the size of the input.
	maxKeys = 32
)

// field is one member of a JSON object.
type field struct {
	key   []byte // without quotes and escapes
	value []byte // as it stands, checked
}

// scanner checks JSON and finds its way in it. It expects valid UTF-8. After a fault it must not be used again.
type scanner struct {
	b      []byte
	i      int
	fields []field // members of the objects that are open; those of the outermost one stay
	fault  Fault
}

// scanObject checks that b is one JSON object with nothing but white space around it, and returns its members in their order. They point
// into b and take the place of what is in fields.
func scanObject(b []byte, fields []field) ([]field, Fault) {
	s := scanner{b: b, fields: fields[:0]}
	s.space()
	if s.peek() != '{' {
		return s.fields, FaultJSON
	}
	if s.object(0); s.fault == FaultNone {
		if s.space(); s.i != len(b) {
			s.fault = FaultJSON
		}
	}
	return s.fields, s.fault
}

// eachItem calls yield for every item of a JSON array that has been checked before, until it says false. It is false if b is no array or
// yield said so.
func eachItem(b []byte, yield func(item []byte) bool) bool {
	s := scanner{b: b}
	if s.peek() != '[' {
		return false
	}
	s.i++
	if s.space(); s.peek() == ']' {
		return true
	}
	for {
		s.space()
		start := s.i
		if !s.value(1) || !yield(b[start:s.i]) {
			return false
		}
		if s.space(); s.peek() != ',' {
			return s.peek() == ']'
		}
		s.i++
	}
}

func (s *scanner) fail(f Fault) bool {
	s.fault = f
	return false
}

// peek is the next byte, 0 at the end: no JSON has a bare 0.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// value steps over one value. depth is how many arrays and objects it lies in.
func (s *scanner) value(depth int) bool {
	switch c := s.peek(); c {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

// object steps over an object. That of depth 0 leaves its members in s.fields.
func (s *scanner) object(depth int) bool {
	if depth >= maxDepth {
		return s.fail(FaultTooDeep)
	}
	base := len(s.fields)
	s.i++
	s.space()
	for more := s.peek() != '}'; more; {
		if s.space(); s.peek() != '"' {
			return s.fail(FaultJSON)
		}
		start := s.i
		if !s.text() {
			return false
		}
		key := unquoteBytes(s.b[start:s.i])
		if len(s.fields)-base == maxKeys {
			return s.fail(FaultTooDeep)
		}
		for _, f := range s.fields[base:] {
			if bytes.Equal(f.key, key) {
				return s.fail(FaultDuplicateKey)
			}
		}
		if s.space(); s.peek() != ':' {
			return s.fail(FaultJSON)
		}
		s.i++
		s.space()
		at := len(s.fields)
		s.fields = append(s.fields, field{key: key})
		start = s.i
		if !s.value(depth + 1) {
			return false
		}
		s.fields[at].value = s.b[start:s.i]
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			more = false
		default:
			return s.fail(FaultJSON)
		}
	}
	s.i++
	if depth > 0 {
		s.fields = s.fields[:base]
	}
	return true
}

func (s *scanner) array(depth int) bool {
	if depth >= maxDepth {
		return s.fail(FaultTooDeep)
	}
	s.i++
	if s.space(); s.peek() == ']' {
		s.i++
		return true
	}
	for {
		if s.space(); !s.value(depth + 1) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return true
		default:
			return s.fail(FaultJSON)
		}
	}
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.fail(FaultJSON)
	}
	s.i += len(w)
	return true
}

func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail(FaultJSON)
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.fail(FaultJSON)
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.fail(FaultJSON)
		}
	}
	return true
}

// text steps over a string and checks its escapes.
func (s *scanner) text() bool {
	i := s.i + 1
	for i < len(s.b) {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return true
		case c < ' ':
			return s.fail(FaultJSON)
		case c == '\\':
			_, n := unescape(s.b[i:])
			if n == 0 {
				return s.fail(FaultJSON)
			}
			i += n
		default:
			i++
		}
	}
	return s.fail(FaultJSON)
}

// unescape reads the escape at the start of b: its character and its length, 0 if it is none. Half of a surrogate pair is none: it has no
// UTF-8.
func unescape(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return 0, 0
	}
	r, ok := hex4(b[2:])
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
		return 0, 0
	}
	low, ok := hex4(b[8:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unquoteBytes returns what a checked string says: a part of quoted if it has no escape, else a copy.
func unquoteBytes(quoted []byte) []byte {
	in := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		if in[0] != '\\' {
			n := bytes.IndexByte(in, '\\')
			if n < 0 {
				n = len(in)
			}
			out, in = append(out, in[:n]...), in[n:]
			continue
		}
		r, n := unescape(in)
		out, in = utf8.AppendRune(out, r), in[n:]
	}
	return out
}

// parseUint reads a checked value as a plain unsigned integer: no sign, fraction or exponent.
func parseUint(value []byte) (n uint64, ok bool) {
	if len(value) == 0 || len(value) > 20 {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		high, digit := n, uint64(c-'0')
		if n = 10*n + digit; high > (1<<64-1-digit)/10 {
			return 0, false
		}
	}
	return n, true
}
