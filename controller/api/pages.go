package api

import (
	"encoding/base64"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a page.
const (
	defaultLimit = 1000
	maxLimit     = 10_000
)

// page is what a listing was asked for.
type page struct {
	kind  string   // of the listing: a cursor is good for its own alone
	limit int      // items at most
	after []string // the key behind which the page starts; nil: from the start
}

// pageOf reads limit and cursor of a listing whose keys have so many parts.
func (c *call) pageOf(kind string, parts int) (page, error) {
	query, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil {
		return page{}, invalid("the query is not percent-encoded")
	}
	p := page{kind: kind, limit: defaultLimit}
	if values := query["limit"]; values != nil {
		n, err := strconv.Atoi(values[0])
		if err != nil || len(values) > 1 || n < 1 || n > maxLimit || strconv.Itoa(n) != values[0] {
			return page{}, invalid("limit must be a number from 1 to %d", maxLimit)
		}
		p.limit = n
	}
	if values := query["cursor"]; values != nil {
		key, ok := parseCursor(kind, values[0])
		if !ok || len(values) > 1 || len(key) != parts {
			return page{}, invalid("cursor must be the next_cursor of a page of this listing")
		}
		p.after = key
	}
	return p, nil
}

// cursorOf hides the last key of a page. Names hold no NUL.
func cursorOf(kind string, key []string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + "\x00" + strings.Join(key, "\x00")))
}

func parseCursor(kind, cursor string) ([]string, bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || !utf8.Valid(text) {
		return nil, false
	}
	parts := strings.Split(string(text), "\x00")
	return parts[1:], parts[0] == kind && len(parts) > 1
}

// listing is the JSON form of a page.
type listing struct {
	Items      []any  `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// fill takes a page from what follows its start and is visible to the caller, in the order of the keys. Only the last page is short.
func fill[T any](p page, from iter.Seq[T], key func(T) []string, item func(T) any) listing {
	out := listing{Items: []any{}}
	var last T
	for v := range from {
		if len(out.Items) == p.limit {
			out.NextCursor = cursorOf(p.kind, key(last))
			break
		}
		out.Items = append(out.Items, item(v))
		last = v
	}
	return out
}

// query returns one parameter of a filter; "" when it is not given. Given twice, it is refused.
func (c *call) query(name string) (string, error) {
	values := c.request.URL.Query()[name]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", invalid("%s is given twice", name)
	}
}
