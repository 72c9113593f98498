package raw_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
	"github.com/felixlog/felix/compat/raw"
)

// closeWait bounds the wait for a connection to be closed: Kafka delays a failed authentication by 100 ms.
const closeWait = 5 * time.Second

var _ = register(
	Case{ID: "8.plain", What: "SASL/PLAIN with the right password, then Metadata", Want: "0, brokers listed"},
	Case{ID: "9.password", What: "SASL/PLAIN with a wrong password", Want: "SASL_AUTHENTICATION_FAILED (58) with a sentence; closed"},
	Case{ID: "9.tenant", What: "SASL/PLAIN with an unknown user", Want: "SASL_AUTHENTICATION_FAILED (58) with a sentence; closed"},
	Case{ID: "9.empty", What: "SASL/PLAIN with an empty password", Want: "SASL_AUTHENTICATION_FAILED (58) with a sentence; closed"},
	Case{ID: "10.metadata", What: "Metadata before SASL on a SASL listener", Want: "closed, no bytes"},
	Case{ID: "10.scram", What: "SaslHandshake SCRAM-SHA-256 when only PLAIN is enabled", Want: "UNSUPPORTED_SASL_MECHANISM (33) [PLAIN]; closed"},
	Case{ID: "10.between", What: "Metadata between handshake and token", Want: "ILLEGAL_SASL_STATE (34) in its own response; closed"},
	Case{ID: "11.v0", What: "SaslHandshake v0, then a bare token frame", Want: "works, or 33 and closed"},
	Case{
		ID: "12.idle", What: "a connection that does not authenticate", Want: "closed after the authentication timeout",
		OnlyFelix: "Kafka has no authentication timeout, only the idle limit of 10 minutes",
	},
	Case{
		ID: "S82.authenticate", What: "SaslAuthenticate without a handshake", Want: "ILLEGAL_SASL_STATE (34), closed",
		WantKafka: "closed", Why: "spec/security.md section 8: a readable refusal; Kafka closes without an answer",
	},
	Case{ID: "S83.two-nuls", What: "PLAIN message without its two NULs", Want: "SASL_AUTHENTICATION_FAILED (58) with a sentence; closed"},
	Case{ID: "S84.authzid", What: "PLAIN with an authorization id of another user", Want: "SASL_AUTHENTICATION_FAILED (58) with a sentence; closed"},
	Case{ID: "10.again", What: "SaslHandshake after authentication on a connection without session lifetime", Want: "ILLEGAL_SASL_STATE (34); the connection stays"},
	Case{ID: "S77.plaintext", What: "plaintext to a TLS listener", Want: "closed"},
	Case{ID: "S77.tls", What: "a TLS hello to a plaintext listener", Want: "closed, no bytes"},
	Case{ID: "S77.works", What: "TLS with the given certificate, then Metadata", Want: "0, brokers listed"},
	Case{ID: "S78.frame", What: "length prefix of 1 MiB before SASL", Want: "closed, no bytes"},
	Case{ID: "S79.frame", What: "length prefix of 100 MiB + 1 after SASL", Want: "closed, no bytes"},
	Case{ID: "S92.unauthenticated", What: "Produce and Fetch on a SASL listener before SASL", Want: "closed, no bytes; closed, no bytes"},
)

func saslAddr(t *testing.T) string { return secureAddr(t, peer.SASL) }
func tlsAddr(t *testing.T) string  { return secureAddr(t, peer.TLS) }

// handshake sends SaslHandshake.
func (c *client) handshake(version int16, mechanism string) *kmsg.SASLHandshakeResponse {
	c.t.Helper()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = version, mechanism
	return do[*kmsg.SASLHandshakeResponse](c, req)
}

// token sends SaslAuthenticate with these bytes.
func tokenRequest(message string) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, []byte(message)
	return req
}

// authenticate runs SASL/PLAIN, which has to succeed.
func (c *client) authenticate(user, password string) {
	c.t.Helper()
	if resp := c.handshake(1, "PLAIN"); resp.ErrorCode != 0 {
		c.t.Fatalf("handshake: %s", name(resp.ErrorCode))
	}
	resp := do[*kmsg.SASLAuthenticateResponse](c, tokenRequest("\x00"+user+"\x00"+password))
	if resp.ErrorCode != 0 {
		c.t.Fatalf("authenticate %s: %s %s", user, name(resp.ErrorCode), str(resp.ErrorMessage))
	}
}

// dialSASL is an authenticated connection.
func dialSASL(t *testing.T, user, password string) *client {
	t.Helper()
	c := dialAddr(t, saslAddr(t))
	c.authenticate(user, password)
	return c
}

// brokers summarises a Metadata answer.
func brokers(resp *kmsg.MetadataResponse) string {
	if len(resp.Brokers) == 0 || resp.ErrorCode != 0 {
		return fmt.Sprintf("%s, %d brokers", name(resp.ErrorCode), len(resp.Brokers))
	}
	return "0, brokers listed"
}

func TestCase08SaslPlain(t *testing.T) {
	expect(t, "8.plain", brokers(dialSASL(t, "acme", "acme-secret").metadata(12)))
}

// refusal sends a PLAIN message and says how it was refused.
func refusal(t *testing.T, message string) string {
	t.Helper()
	c := dialAddr(t, saslAddr(t))
	if resp := c.handshake(1, "PLAIN"); resp.ErrorCode != 0 {
		t.Fatalf("handshake: %s", name(resp.ErrorCode))
	}
	resp := do[*kmsg.SASLAuthenticateResponse](c, tokenRequest(message))
	text := "without a sentence"
	if len(str(resp.ErrorMessage)) > 10 && resp.ErrorMessage != nil {
		text = "with a sentence"
	}
	if strings.Contains(str(resp.ErrorMessage), "secret") {
		text = "with the password in it"
	}
	state, _, _ := strings.Cut(c.Outcome(closeWait), ",")
	return fmt.Sprintf("%s %s; %s", name(resp.ErrorCode), text, state)
}

func TestCase09WrongCredentials(t *testing.T) {
	expect(t, "9.password", refusal(t, "\x00acme\x00wrong-secret"))
	expect(t, "9.tenant", refusal(t, "\x00nobody\x00acme-secret"))
	expect(t, "9.empty", refusal(t, "\x00acme\x00"))
	expect(t, "S83.two-nuls", refusal(t, "acme acme-secret"))
	expect(t, "S84.authzid", refusal(t, "beta\x00acme\x00acme-secret"))
}

func TestCase10OtherRequestsBeforeSasl(t *testing.T) {
	c := dialAddr(t, saslAddr(t))
	if _, err := c.Send(metadataRequest(12)); err != nil {
		t.Fatal(err)
	}
	expect(t, "10.metadata", c.Outcome(closeWait))

	c = dialAddr(t, saslAddr(t))
	resp := c.handshake(1, "SCRAM-SHA-256")
	state, _, _ := strings.Cut(c.Outcome(closeWait), ",")
	expect(t, "10.scram", fmt.Sprintf("%s %v; %s", name(resp.ErrorCode), resp.SupportedMechanisms, state))

	c = dialAddr(t, saslAddr(t))
	c.handshake(1, "PLAIN")
	got := ""
	req := metadataRequest(12, "raw.some-topic")
	answer, closed := c.try(req)
	if answer == nil {
		got = closed
	} else {
		m := answer.(*kmsg.MetadataResponse)
		code := m.ErrorCode
		if len(m.Topics) > 0 {
			code = m.Topics[0].ErrorCode
		}
		state, _, _ := strings.Cut(c.Outcome(closeWait), ",")
		got = fmt.Sprintf("%s in its own response; %s", name(code), state)
	}
	expect(t, "10.between", got)

	c = dialSASL(t, "acme", "acme-secret")
	again := c.handshake(1, "PLAIN")
	stays := "the connection stays"
	if brokers(c.metadata(12)) != "0, brokers listed" {
		stays = "the connection is not usable"
	}
	expect(t, "10.again", name(again.ErrorCode)+"; "+stays)
}

func TestCase11HandshakeVersion0(t *testing.T) {
	c := dialAddr(t, saslAddr(t))
	resp := c.handshake(0, "PLAIN")
	got := name(resp.ErrorCode)
	switch resp.ErrorCode {
	case 0:
		if err := c.SendBytes(raw.Frame([]byte("\x00acme\x00acme-secret"))); err != nil {
			t.Fatal(err)
		}
		var size [4]byte
		_ = c.SetReadDeadline(time.Now().Add(raw.Timeout))
		if _, err := io.ReadFull(c, size[:]); err != nil {
			t.Fatalf("answer to a bare token: %v", err)
		}
		if n := binary.BigEndian.Uint32(size[:]); n != 0 {
			t.Fatalf("answer to a bare token: %d bytes", n)
		}
		if brokers(c.metadata(1)) == "0, brokers listed" {
			got = "works, or 33 and closed"
		}
	case 33:
		if state, _, _ := strings.Cut(c.Outcome(closeWait), ","); state == "closed" {
			got = "works, or 33 and closed"
		}
	}
	expect(t, "11.v0", got)
}

func TestCase12AuthenticationTimeout(t *testing.T) {
	if onlyFelix(t, "12.idle") {
		return
	}
	p := startFelix(t, peer.Options{Security: peer.SASL, FelixEnv: []string{"FELIX_KAFKA_AUTH_TIMEOUT_MS=500"}})
	begin := time.Now()
	outcome := dialAddr(t, p.Addr()).Outcome(closeWait)
	got := outcome
	if d := time.Since(begin); outcome == "closed, no bytes" && d >= 400*time.Millisecond && d < 3*time.Second {
		got = "closed after the authentication timeout"
	}
	expect(t, "12.idle", got)
}

func TestHostile82AuthenticateFirst(t *testing.T) {
	c := dialAddr(t, saslAddr(t))
	resp, closed := c.try(tokenRequest("\x00acme\x00acme-secret"))
	got, _, _ := strings.Cut(closed, ",")
	if resp != nil {
		state, _, _ := strings.Cut(c.Outcome(closeWait), ",")
		got = name(resp.(*kmsg.SASLAuthenticateResponse).ErrorCode) + ", " + state
	}
	expect(t, "S82.authenticate", got)
}

func TestHostile77WrongTransport(t *testing.T) {
	addr := tlsAddr(t)
	c := dialAddr(t, addr)
	req := kmsg.NewPtrApiVersionsRequest()
	if _, err := c.Send(req); err != nil {
		t.Fatal(err)
	}
	state, _, _ := strings.Cut(c.Outcome(closeWait), ",") // a TLS alert may come before the close
	expect(t, "S77.plaintext", state)

	hello := dial(t)
	// The start of a TLS 1.2 record with a handshake of 512 bytes: as a length it is 0x16030102, far above the limit.
	if err := hello.SendBytes(append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 500)...)); err != nil {
		t.Fatal(err)
	}
	expect(t, "S77.tls", hello.Outcome(closeWait))
	expect(t, "S77.works", brokers(dialTLS(t, addr).metadata(12)))
}

func TestHostile78FrameBeforeSasl(t *testing.T) {
	c := dialAddr(t, saslAddr(t))
	if err := c.SendBytes([]byte{0, 0x10, 0, 0, 0, 18, 0, 0}); err != nil {
		t.Fatal(err)
	}
	expect(t, "S78.frame", c.Outcome(closeWait))
}

func TestHostile79FrameAfterSasl(t *testing.T) {
	c := dialSASL(t, "acme", "acme-secret")
	if err := c.SendBytes(append(binary.BigEndian.AppendUint32(nil, frameLimit+1), 0, 3, 0, 9)); err != nil {
		t.Fatal(err)
	}
	expect(t, "S79.frame", c.Outcome(closeWait))
}

func TestHostile92Unauthenticated(t *testing.T) {
	var got []string
	for _, req := range []kmsg.Request{produceRequest(9, -1, "raw.some-topic", part{0, values("a")}), fetchRequest("raw.some-topic", 0, 0)} {
		c := dialAddr(t, saslAddr(t))
		if _, err := c.Send(req); err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Outcome(closeWait))
	}
	expect(t, "S92.unauthenticated", strings.Join(got, "; "))
}

var _ net.Conn = (*client)(nil)
