package kafkaproto

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// fakeVerifier knows tenant t1 with the password "secret", and some users that behave oddly.
type fakeVerifier struct{ lifetime time.Duration }

func (v fakeVerifier) VerifyPlain(_ context.Context, user, password string) (Identity, error) {
	switch {
	case user == "unreachable":
		return Identity{}, errors.New("dial key server: refused")
	case password != "secret":
		return Identity{}, errcode.New(errcode.AuthenticationFailed, "the token is not valid for this tenant")
	}
	id := Identity{Caller: Caller{Tenant: user, Principal: "p"}}
	if v.lifetime != 0 {
		id.Expires = time.Now().Add(v.lifetime)
	}
	return id, nil
}

func withVerifier(v Verifier) func(*Options) { return func(o *Options) { o.Verifier = v } }

func handshake(c *client, version int16, mechanism string) *kmsg.SASLHandshakeResponse {
	c.t.Helper()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.SetVersion(version)
	req.Mechanism = mechanism
	return c.ask(req).(*kmsg.SASLHandshakeResponse)
}

func authenticate(c *client, version int16, token string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SetVersion(version)
	req.SASLAuthBytes = []byte(token)
	return c.ask(req).(*kmsg.SASLAuthenticateResponse)
}

func TestSASLPlain(t *testing.T) {
	h := newHarness(t, withVerifier(fakeVerifier{}))
	h.node.add("default", "a", 1)
	for version := int16(0); version <= 2; version++ {
		c := h.dial()
		api := kmsg.NewPtrApiVersionsRequest()
		if resp := c.ask(api).(*kmsg.ApiVersionsResponse); len(resp.ApiKeys) != len(h.srv.apis.rows) {
			t.Error("the table before SASL is not the whole one")
		}
		if resp := handshake(c, 1, "PLAIN"); resp.ErrorCode != 0 || len(resp.SupportedMechanisms) != 1 || resp.SupportedMechanisms[0] != "PLAIN" {
			t.Fatalf("handshake: %+v", resp)
		}
		if resp := authenticate(c, version, "\x00t1\x00secret"); resp.ErrorCode != 0 || resp.SessionLifetimeMillis != 0 || resp.ErrorMessage != nil {
			t.Fatalf("v%d: %+v", version, resp)
		}
		if resp := c.ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse); len(resp.Topics) != 1 {
			t.Errorf("topics after authentication: %+v", resp.Topics)
		}
		if resp := handshake(c, 1, "PLAIN"); resp.ErrorCode != 34 { // once more, without a lifetime
			t.Errorf("second handshake: %+v", resp)
		}
		if resp := authenticate(c, version, "\x00t1\x00secret"); resp.ErrorCode != 34 {
			t.Errorf("second authentication: %+v", resp)
		}
		c.ask(kmsg.NewPtrMetadataRequest())
	}
}

func TestSASLFailures(t *testing.T) { // case 9; rows 82 to 85
	h := newHarness(t, withVerifier(fakeVerifier{}))
	cases := []struct{ name, token, text string }{
		{"wrong password", "\x00t1\x00wrong", "not valid for this tenant"},
		{"empty password", "\x00t1\x00", "malformed"},
		{"empty user", "\x00\x00secret", "malformed"},
		{"one NUL", "t1\x00secret", "malformed"},
		{"three NULs", "\x00t1\x00secret\x00", "malformed"},
		{"another authorization id", "t2\x00t1\x00secret", "authorization id"},
		{"verifier unreachable", "\x00unreachable\x00x", "cannot check credentials"},
		{"empty", "", "malformed"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := h.dial()
			handshake(c, 1, "PLAIN")
			began := time.Now()
			resp := authenticate(c, 1, tc.token)
			if resp.ErrorCode != 58 || resp.ErrorMessage == nil || !strings.Contains(*resp.ErrorMessage, tc.text) ||
				!strings.HasPrefix(*resp.ErrorMessage, "Felix: ") ||
				!strings.HasSuffix(*resp.ErrorMessage, ". The user name is the tenant; the password is the one configured for it, or a token.") {
				t.Errorf("got %d %v", resp.ErrorCode, resp.ErrorMessage)
			}
			if strings.Contains(*resp.ErrorMessage, "dial") {
				t.Error("the detail went to the client")
			}
			if took := time.Since(began); took < failedAuthDelay {
				t.Errorf("answered after %v", took)
			}
			c.wantClosed()
		})
	}
}

func TestSASLOutOfOrder(t *testing.T) { // case 10
	h := newHarness(t, withVerifier(fakeVerifier{}))
	c := h.dial()
	if resp := authenticate(c, 1, "\x00t1\x00secret"); resp.ErrorCode != 34 {
		t.Errorf("token without handshake: %+v", resp)
	}
	c.wantClosed()

	c = h.dial()
	c.send(kmsg.NewPtrMetadataRequest())
	c.wantClosed()

	c = h.dial()
	handshake(c, 1, "PLAIN")
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(13)
	if resp := c.ask(req).(*kmsg.MetadataResponse); resp.ErrorCode != 34 || len(resp.Topics) != 0 {
		t.Errorf("request between handshake and token: %+v", resp)
	}
	c.wantClosed()

	c = h.dial()
	handshake(c, 1, "PLAIN")
	if resp := c.ask(metadataFor(5, "a")).(*kmsg.MetadataResponse); resp.Topics[0].ErrorCode != 34 || *resp.Topics[0].Topic != "a" {
		t.Errorf("the same in version 5: %+v", resp)
	}
	c.wantClosed()

	c = h.dial()
	if resp := handshake(c, 1, "SCRAM-SHA-256"); resp.ErrorCode != 33 || len(resp.SupportedMechanisms) != 1 {
		t.Errorf("SCRAM: %+v", resp)
	}
	c.wantClosed()

	open := newHarness(t, nil).dial()
	if resp := handshake(open, 1, "PLAIN"); resp.ErrorCode != 34 {
		t.Errorf("handshake where nobody authenticates: %+v", resp)
	}
	open.ask(kmsg.NewPtrMetadataRequest())
}

func TestSASLRawTokens(t *testing.T) { // case 11
	h := newHarness(t, withVerifier(fakeVerifier{}))
	raw := func(token string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)
	}
	c := h.dial()
	if resp := handshake(c, 0, "PLAIN"); resp.ErrorCode != 0 {
		t.Fatalf("handshake v0: %+v", resp)
	}
	c.write(raw("\x00t1\x00secret"))
	if b := c.frame(); len(b) != 0 {
		t.Errorf("answer to a good token: %x, want an empty frame", b)
	}
	c.ask(kmsg.NewPtrMetadataRequest())

	c = h.dial()
	handshake(c, 0, "PLAIN")
	c.write(raw("\x00t1\x00no"))
	c.wantClosed()

	c = h.dial()
	handshake(c, 0, "PLAIN")
	c.write(raw(""))
	c.wantClosed()
}

func TestSASLSessionLifetime(t *testing.T) { // case 13
	h := newHarness(t, withVerifier(fakeVerifier{lifetime: 300 * time.Millisecond}))
	c := h.dial()
	handshake(c, 1, "PLAIN")
	resp := authenticate(c, 1, "\x00t1\x00secret")
	if resp.ErrorCode != 0 || resp.SessionLifetimeMillis <= 0 || resp.SessionLifetimeMillis > 300 {
		t.Fatalf("got %+v", resp)
	}
	handshake(c, 1, "PLAIN")
	if resp := authenticate(c, 1, "\x00t1\x00secret"); resp.ErrorCode != 0 {
		t.Fatalf("again on the same connection: %+v", resp)
	}
	c.ask(kmsg.NewPtrMetadataRequest())
	handshake(c, 1, "PLAIN")
	if resp := authenticate(c, 1, "\x00t2\x00secret"); resp.ErrorCode != 58 {
		t.Errorf("another principal: %+v", resp)
	}
	c.wantClosed()

	c = h.dial()
	handshake(c, 1, "PLAIN")
	authenticate(c, 1, "\x00t1\x00secret")
	time.Sleep(310 * time.Millisecond)
	c.send(kmsg.NewPtrMetadataRequest())
	c.wantClosed()
}

func TestAuthTimeout(t *testing.T) { // case 12; row 80
	h := newHarness(t, func(o *Options) { o.Verifier, o.AuthTimeout = fakeVerifier{}, 50*time.Millisecond })
	c := h.dial()
	handshake(c, 1, "PLAIN")
	c.wantClosed()
	c = h.dial()
	handshake(c, 1, "PLAIN")
	authenticate(c, 1, "\x00t1\x00secret")
	time.Sleep(60 * time.Millisecond)
	c.ask(kmsg.NewPtrMetadataRequest())
}

func TestUnauthenticatedFrameLimit(t *testing.T) { // row 78
	h := newHarness(t, withVerifier(fakeVerifier{}))
	c := h.dial()
	c.write([]byte{0, 1, 0, 1})
	c.wantClosed()
}
