package native

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// direction says who sent something.
type direction string

const (
	fromClient direction = "client"
	fromServer direction = "server"
)

// sighting is one frame, or the end of one direction of a stream, as it passed the relay.
type sighting struct {
	conn   int // in the order of connecting
	stream int // in the order of opening on its connection, both kinds and both openers together
	uni    bool
	from   direction
	flags  uint16
	size   int            // of the payload
	kind   string         // a message's type; "publish", "ack" and "events" for the binary layouts; "fin", "reset 0" and "stop 0"
	fields map[string]any // of a message; tokens are left out
	keys   []string       // of a message, in their order
	head   []byte         // the first bytes of a binary payload
}

func (s sighting) String() string {
	text := fmt.Sprintf("%d.%d %s", s.conn, s.stream, s.from)
	if s.uni {
		text += " uni"
	}
	text += " " + s.kind
	if s.flags != 0 {
		text += fmt.Sprintf(" 0x%04x", s.flags)
	}
	if s.fields != nil {
		b, err := json.Marshal(s.fields)
		if err != nil {
			return text + " " + err.Error()
		}
		text += " " + string(b)
	}
	return text
}

// notebook keeps what was seen, in the order in which it was.
type notebook struct {
	mu   sync.Mutex
	seen []sighting
}

func (n *notebook) note(s sighting) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, s)
}

// since is what was seen from a place on, and the next place.
func (n *notebook) since(place int) ([]sighting, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen[place:]), len(n.seen)
}

// tap cuts one direction of a stream into frames. It is given what passes and holds nothing up; a frame is kept whole only while it is
// small, so it is no burden for large ones.
type tap struct {
	book *notebook
	like sighting // what all sightings of this direction have
	buf  []byte
	skip int // of the current payload, not kept
	bad  bool
}

const (
	frameHeader = 12
	frameMagic  = "FLX1"
	tapKeeps    = 64 << 10 // of a payload
)

func (t *tap) pass(b []byte) {
	for len(b) > 0 && !t.bad {
		if t.skip > 0 {
			n := min(t.skip, len(b))
			t.skip -= n
			b = b[n:]
			continue
		}
		want := frameHeader
		if len(t.buf) >= frameHeader {
			want += min(int(binary.BigEndian.Uint32(t.buf[8:])), tapKeeps)
		}
		n := min(want-len(t.buf), len(b))
		t.buf = append(t.buf, b[:n]...)
		b = b[n:]
		if len(t.buf) == frameHeader && string(t.buf[:4]) != frameMagic {
			t.bad = true
			t.end("not a frame")
			return
		}
		t.whole()
	}
}

// whole notes a frame once it is there.
func (t *tap) whole() {
	if len(t.buf) < frameHeader {
		return
	}
	size := int(binary.BigEndian.Uint32(t.buf[8:]))
	kept := min(size, tapKeeps)
	if len(t.buf) < frameHeader+kept {
		return
	}
	t.skip = size - kept
	payload := t.buf[frameHeader:]
	s := t.like
	s.flags, s.size = binary.BigEndian.Uint16(t.buf[6:]), size
	switch {
	case s.flags == 0:
		s.kind, s.fields, s.keys = message(payload)
	case s.flags&0x0001 != 0:
		s.kind = "publish"
	case s.flags&0x0010 != 0:
		s.kind = "ack"
	default:
		s.kind = "events"
	}
	if s.flags != 0 {
		s.head = slices.Clone(payload[:min(len(payload), 64)])
	}
	t.book.note(s)
	t.buf = t.buf[:0]
}

func (t *tap) end(how string) {
	s := t.like
	s.kind = how
	t.book.note(s)
}

// message reads a JSON message.
func message(payload []byte) (kind string, fields map[string]any, keys []string) {
	d := json.NewDecoder(strings.NewReader(string(payload)))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return "unreadable", nil, nil
	}
	kind, _ = fields["type"].(string)
	delete(fields, "type")
	if _, ok := fields["token"]; ok {
		fields["token"] = "left out"
	}
	// The order of the keys of the outermost object.
	d = json.NewDecoder(strings.NewReader(string(payload)))
	for depth, key := 0, true; ; {
		tok, err := d.Token()
		if err != nil {
			return kind, fields, keys
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
				key = depth == 1
				continue
			}
			depth--
			key = depth == 1
		default:
			if depth == 1 && key {
				keys = append(keys, fmt.Sprint(v))
				key = false
			} else if depth == 1 {
				key = true
			}
		}
	}
}
