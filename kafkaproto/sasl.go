package kafkaproto

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
)

// SaslHandshake, versions 0 and 1: after version 0 the tokens travel as bare frames, after version 1 in SaslAuthenticate.
//
// SaslAuthenticate, versions 0 to 2:
//
//	1  session_lifetime_ms
//	2  flexible
//
// PLAIN is the one mechanism. A credential with an end makes the session end with it: clients that know KIP-368 authenticate
// again on the same connection before then, others are closed at their next request.
//
// Same as Kafka: a failed authentication is answered after 100 ms, during which nothing is read from that connection, and
// closes it.

const (
	mechanismPlain = "PLAIN"
	// failedAuthDelay slows guessing (connection.failed.authentication.delay.ms).
	failedAuthDelay = 100 * time.Millisecond
)

// saslState is what a connection knows of its authentication. Connections that never begin one have none.
type saslState struct {
	handshaken bool      // a mechanism was chosen and the next token is awaited
	raw        bool      // that token comes as a bare frame
	done       bool      // authenticated at least once
	expires    time.Time // of the credential; zero: never
}

func (s *saslState) expectsRawToken() bool { return s != nil && s.raw && s.handshaken }

// expired reports whether the connection outlived its credential.
func (c *conn) expired() bool {
	return c.sasl != nil && !c.sasl.expires.IsZero() && c.srv.opts.Now().After(c.sasl.expires)
}

// mayAuthenticate: connections that are authenticated for good may not do so again.
func (c *conn) mayAuthenticate() bool {
	return c.srv.opts.Verifier != nil && (c.sasl == nil || !c.sasl.done || !c.sasl.expires.IsZero())
}

func handleSASLHandshake(c *call) {
	resp := c.response().(*kmsg.SASLHandshakeResponse)
	if c.srv.opts.Verifier != nil {
		resp.SupportedMechanisms = []string{mechanismPlain}
	}
	switch {
	case !c.conn.mayAuthenticate():
		resp.ErrorCode = c.kindCode(errcode.IllegalSASLState)
		c.reply(resp)
	case c.req.(*kmsg.SASLHandshakeRequest).Mechanism != mechanismPlain:
		resp.ErrorCode = c.kindCode(errcode.UnsupportedSASLMechanism)
		c.replyThenClose(resp)
	default:
		if c.conn.sasl == nil {
			c.conn.sasl = new(saslState)
		}
		c.conn.sasl.handshaken, c.conn.sasl.raw = true, c.version == 0
		c.reply(resp)
	}
}

func handleSASLAuthenticate(c *call) {
	resp := c.response().(*kmsg.SASLAuthenticateResponse)
	if s := c.conn.sasl; s == nil || !s.handshaken {
		text := "SaslAuthenticate without a SaslHandshake that chose a mechanism"
		resp.ErrorCode, resp.ErrorMessage = c.kindCode(errcode.IllegalSASLState), &text
		if c.conn.ready {
			c.reply(resp)
			return
		}
		c.replyThenClose(resp)
		return
	}
	lifetime, err := c.conn.authenticate(c.req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)
	if err != nil {
		text := c.conn.authFailureText(err)
		resp.ErrorCode, resp.ErrorMessage = c.kindCode(errcode.AuthenticationFailed), &text
		c.srv.rest(failedAuthDelay)
		c.replyThenClose(resp)
		return
	}
	resp.SASLAuthBytes = []byte{}
	resp.SessionLifetimeMillis = lifetime.Milliseconds()
	c.reply(resp)
}

// rawToken handles a bare token frame. The answer is one too: empty for success, none at all for failure.
func (c *conn) rawToken(token []byte) {
	if _, err := c.authenticate(token); err != nil {
		c.srv.rest(failedAuthDelay)
		c.shut(err)
		return
	}
	r := newResponse()
	r.head = append(r.head, 0, 0, 0, 0)
	c.complete(c.newSlot(), r)
}

// authenticate checks one PLAIN message and on success makes its identity the connection's. It returns the time that the
// credential has left, 0 for no end. The handshake is used up either way.
func (c *conn) authenticate(token []byte) (lifetime time.Duration, err error) {
	c.sasl.handshaken = false
	user, password, err := parsePlain(token)
	if err != nil {
		return 0, err
	}
	id, err := c.srv.opts.Verifier.VerifyPlain(c.srv.life, user, password)
	if err != nil {
		return 0, err
	}
	if id.Caller.Tenant != user {
		return 0, errcode.New(errcode.AuthenticationFailed, "the credential belongs to another tenant")
	}
	if err := c.checkCertificate(&id); err != nil {
		return 0, err
	}
	if c.sasl.done && (id.Caller.Tenant != c.caller.Tenant || id.Caller.Principal != c.caller.Principal || id.Caller.Incarnation != c.caller.Incarnation) {
		return 0, errcode.New(errcode.AuthenticationFailed, "the principal changed on a connection that was authenticated already")
	}
	if !id.Expires.IsZero() {
		if lifetime = id.Expires.Sub(c.srv.opts.Now()); lifetime < time.Millisecond {
			return 0, errcode.New(errcode.AuthenticationFailed, "the token has expired")
		}
	}
	c.caller, c.ready = id.Caller, true
	c.mark(&tenantMark{id.Caller.Tenant, id.Caller.Incarnation})
	c.sasl.done, c.sasl.expires = true, id.Expires
	return lifetime, nil
}

// checkCertificate has the client's certificate be issued to whom its credential belongs to, if certificates are bound: as the credential
// itself says, or else by the URI felix:principal:<principal>, exactly, or by a DNS name or an address that the principal matches as a
// server's name would. On a plaintext listener there is nothing to bind to. Source: security rules 6.2.
func (c *conn) checkCertificate(id *Identity) error {
	tc, ok := c.nc.(*tls.Conn)
	if !ok || !c.srv.opts.BindCertificates {
		return nil
	}
	certs := tc.ConnectionState().PeerCertificates // verified by the handshake
	if len(certs) == 0 {
		return errcode.New(errcode.AuthenticationFailed, "there is no client certificate, and credentials are bound to theirs")
	}
	if id.CheckCertificate != nil {
		return id.CheckCertificate(certs[0])
	}
	if isIssuedTo(certs[0], id.Caller.Principal) {
		return nil
	}
	return errcode.New(errcode.AuthenticationFailed, "the client certificate was issued to somebody else")
}

func isIssuedTo(cert *x509.Certificate, principal string) bool {
	for _, uri := range cert.URIs {
		if uri.String() == principalURI+principal {
			return true
		}
	}
	return principal != "" && cert.VerifyHostname(principal) == nil
}

// principalURI is what the URI of a certificate has before the principal.
const principalURI = "felix:principal:"

// authFailureText is what the client may read about err, which is logged and counted. It never names what was sent.
func (c *conn) authFailureText(err error) string {
	c.srv.metrics.authFailures.Inc()
	reason := "the server cannot check credentials now"
	if errcode.Of(err) == errcode.AuthenticationFailed {
		reason = err.Error()
		c.srv.peerLog.Info("authentication failed", zap.Stringer("remote", c.addr), zap.Error(err))
	} else {
		c.srv.peerLog.Error("credentials cannot be verified", zap.Stringer("remote", c.addr), zap.Error(err))
	}
	return "Felix: " + reason + ". The user name is the tenant; the password is the one configured for it, or a token."
}

var errPlain = errcode.New(errcode.AuthenticationFailed, "malformed PLAIN message")

// parsePlain reads "[authzid] NUL authcid NUL passwd" (RFC 4616). A non-empty authorization id must be the user's own.
func parsePlain(token []byte) (user, password string, err error) {
	parts := bytes.Split(token, []byte{0})
	if len(parts) != 3 || len(parts[1]) == 0 || len(parts[2]) == 0 {
		return "", "", errPlain
	}
	if len(parts[0]) > 0 && !bytes.Equal(parts[0], parts[1]) {
		return "", "", errcode.New(errcode.AuthenticationFailed, "the authorization id differs from the username")
	}
	return string(parts[1]), string(parts[2]), nil
}

// errIllegalState ends a connection that asked for something between handshake and token.
var errIllegalState = errors.New("request between SASL handshake and token")

// replyIllegalState answers a request that came between handshake and token with error 34, where that API's answer has a place for
// it, and closes the connection.
func (c *call) replyIllegalState() {
	c.failure = errcode.IllegalSASLState
	code := errcode.IllegalSASLState.Kafka()
	if c.req == nil {
		c.drop()
		c.conn.shut(errIllegalState)
		return
	}
	resp := c.response()
	if m, ok := resp.(*kmsg.MetadataResponse); ok { // has an error of its own from version 13 on only
		for _, asked := range c.req.(*kmsg.MetadataRequest).Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.TopicID, t.ErrorCode = asked.Topic, asked.TopicID, code
			t.Partitions = []kmsg.MetadataResponseTopicPartition{}
			m.Topics = append(m.Topics, t)
		}
	}
	if top := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode"); top.IsValid() && top.Kind() == reflect.Int16 {
		top.SetInt(int64(code))
	}
	c.replyThenClose(resp)
}
