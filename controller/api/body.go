package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"
)

// Limits of a body.
const (
	maxBodyBytes = 1 << 20
	maxDepth     = 16
	maxValues    = 16 << 10 // JSON values: what a batch needs several times over
)

// body is a JSON object that was read strictly. Values are string, json.Number, bool, nil, []any and body.
type body map[string]any

// readBody reads the body of a request, a JSON object. Refusals: 415 for another type, 413 for more than 1 MiB, 400 for what is no JSON object
// of UTF-8 with each name once.
func (c *call) readBody() (body, error) {
	r := c.request
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != "application/json" || charset != "" && charset != "utf-8" && charset != "UTF-8" {
		return nil, refuse(http.StatusUnsupportedMediaType, codeUnsupportedType, "the body must be application/json")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, refuse(http.StatusUnsupportedMediaType, codeUnsupportedType, "the body must not be encoded")
	}
	tooLarge := refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "the body has more than %d bytes", maxBodyBytes)
	if r.ContentLength > maxBodyBytes {
		return nil, tooLarge
	}
	if err := c.holdShare(); err != nil {
		return nil, err
	}
	since := len(c.releases)
	if err := c.startReading(); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.writer, r.Body, maxBodyBytes))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, invalid("the body could not be read to its end")
	}
	// The bound was the body's alone: the connection is listened to while the call runs, and must not be given up for its silence.
	if err := c.setReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	release, err := slot(c.ctx, c.server.work)
	if err != nil {
		return nil, err
	}
	b, err := parseBody(text)
	c.giveBack(since)
	c.hold(release)
	return b, err
}

// holdShare waits for a part of the account's share, and keeps it until the call has its answer: an account whose bodies stand still, or are
// much work, fills its own share and leaves slots to the others.
func (c *call) holdShare() error {
	id := c.identity
	if id == nil {
		return nil
	}
	release, err := c.server.readers.take(c.ctx, id.Tenant+"/"+id.Principal)
	if err != nil {
		return err
	}
	c.hold(release)
	return nil
}

// startReading waits for the caller's turn, and bounds the time that its body has to arrive.
func (c *call) startReading() error {
	s := c.server
	host, _, err := net.SplitHostPort(c.request.RemoteAddr)
	if err != nil {
		host = c.request.RemoteAddr
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
		release, err := s.addresses.take(c.ctx, host)
		if err != nil {
			return err
		}
		c.hold(release)
	}
	release, err := slot(c.ctx, s.reads)
	if err != nil {
		return err
	}
	c.hold(release)
	return c.setReadDeadline(time.Now().Add(bodyTimeout))
}

func (c *call) setReadDeadline(at time.Time) error {
	err := http.NewResponseController(c.writer).SetReadDeadline(at)
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return invalid("the body could not be read to its end")
	}
	return nil
}

// parseBody reads a JSON object. The standard decoder alone would take the last of two equal names and mend what is not UTF-8.
func parseBody(text []byte) (body, error) {
	if !utf8.Valid(text) {
		return nil, invalid("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	p := parser{d: d}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	b, ok := v.(body)
	if !ok {
		return nil, invalid("the body is not a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("something follows the JSON object of the body")
	}
	return b, nil
}

type parser struct {
	d      *json.Decoder
	values int
}

var errNotJSON = invalid("the body is not JSON")

func (p *parser) value(depth int) (any, error) {
	if p.values++; p.values > maxValues {
		return nil, invalid("the body has more than %d values", maxValues)
	}
	if depth > maxDepth {
		return nil, invalid("the body is nested more than %d deep", maxDepth)
	}
	t, err := p.d.Token()
	if err != nil {
		return nil, errNotJSON
	}
	switch t {
	case json.Delim('{'):
		return p.object(depth)
	case json.Delim('['):
		return p.list(depth)
	}
	if _, isDelim := t.(json.Delim); isDelim {
		return nil, errNotJSON
	}
	return t, nil
}

func (p *parser) object(depth int) (any, error) {
	b := body{}
	for p.d.More() {
		t, err := p.d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, errNotJSON
		}
		if _, twice := b[name]; twice {
			return nil, invalid("the name %q appears twice", clip(name))
		}
		if b[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	if _, err := p.d.Token(); err != nil {
		return nil, errNotJSON
	}
	return b, nil
}

func (p *parser) list(depth int) (any, error) {
	list := []any{}
	for p.d.More() {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if _, err := p.d.Token(); err != nil {
		return nil, errNotJSON
	}
	return list, nil
}

// has says that a field is there and not null, which is the same as absent.
func (b body) has(name string) bool { return b[name] != nil }

// text reads an optional text; def stands for one that is absent.
func (b body) text(name, def string) (string, error) {
	if !b.has(name) {
		return def, nil
	}
	s, ok := b[name].(string)
	if !ok {
		return "", invalid("%s must be a text", name)
	}
	return s, nil
}

// name reads a text that must be there: the part of a body that is needed to know what is asked for.
func (b body) name(field string) (string, error) {
	if !b.has(field) {
		return "", invalid("%s is missing", field)
	}
	return b.text(field, "")
}

// boolean reads an optional boolean; one that is absent is false.
func (b body) boolean(name string) (bool, error) {
	if !b.has(name) {
		return false, nil
	}
	v, ok := b[name].(bool)
	if !ok {
		return false, invalid("%s must be true or false", name)
	}
	return v, nil
}

// number reads an optional whole number from 1 to high.
func (b body) number(name string, def, high int64) (int64, error) {
	if !b.has(name) {
		return def, nil
	}
	n, ok := b[name].(json.Number)
	if !ok {
		return 0, invalid("%s must be a number", name)
	}
	v, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil || v < 1 || v > high {
		return 0, invalid("%s must be a whole number from 1 to %d", name, high)
	}
	return v, nil
}

// object reads an optional object; nil for one that is absent.
func (b body) object(name string) (body, error) {
	if !b.has(name) {
		return nil, nil //nolint:nilnil // absent is no error
	}
	v, ok := b[name].(body)
	if !ok {
		return nil, invalid("%s must be an object", name)
	}
	return v, nil
}

// objects reads an optional list of objects.
func (b body) objects(name string) ([]body, error) {
	if !b.has(name) {
		return nil, nil
	}
	list, ok := b[name].([]any)
	if !ok {
		return nil, invalid("%s must be a list", name)
	}
	out := make([]body, len(list))
	for i, v := range list {
		if out[i], ok = v.(body); !ok {
			return nil, invalid("item %d of %s must be an object", i, name)
		}
	}
	return out, nil
}

// texts reads an optional list of texts; there says that it was given.
func (b body) texts(name string) (list []string, there bool, err error) {
	if !b.has(name) {
		return nil, false, nil
	}
	values, ok := b[name].([]any)
	if !ok {
		return nil, false, invalid("%s must be a list", name)
	}
	for i, v := range values {
		s, ok := v.(string)
		if !ok {
			return nil, false, invalid("item %d of %s must be a text", i, name)
		}
		list = append(list, s)
	}
	return list, true, nil
}

// only refuses fields that exist for another call and cannot be given in this one: to ignore them would look like success.
func (b body) only(why string, names ...string) error {
	for _, n := range names {
		if b.has(n) {
			return invalid("%s %s", n, why)
		}
	}
	return nil
}
