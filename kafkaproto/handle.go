package kafkaproto

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/buf"
)

var calls = sync.Pool{New: func() any { return new(call) }}

// handle runs one request. The caller holds frame.
func (c *conn) handle(frame *buf.Ref) {
	if c.sasl.expectsRawToken() {
		c.rawToken(frame.Bytes())
		return
	}
	r := wireReader{b: frame.Bytes()}
	h := r.fixedHeader()
	a := c.srv.apis.find(h.key)
	switch {
	case r.bad:
		c.refuse(refusedFrameSize, h)
		return
	case a == nil:
		c.refuse(refusedUnknownAPI, h)
		return
	case !a.serves(h.version):
		if a.key == keyAPIVersions {
			c.answerUnknownAPIVersions(a, h)
			return
		}
		c.refuse(refusedUnsupportedAPI, h)
		return
	case !c.ready && !a.open && c.sasl == nil:
		c.refuse(refusedUnauthenticated, h)
		return
	}
	r.restOfHeader(&h, a.isFlexible(h.version))
	if r.bad {
		c.refuse(refusedMalformed, h)
		return
	}
	if a.raw {
		c.run(a, h, r.b, frame)
		return
	}
	c.uncork() // these may take their time: what is finished goes out first
	c.runAside(a, h, r.b, frame)
}

// runAside is run on a goroutine of its own, for requests that are few and whose handlers need a deep stack: the reader waits, and
// keeps the small stack that makes an idle connection cheap.
func (c *conn) runAside(a *api, h header, body []byte, frame *buf.Ref) {
	var wg sync.WaitGroup
	wg.Go(func() { c.run(a, h, body, frame) })
	wg.Wait()
}

// run decodes the body and calls the handler.
func (c *conn) run(a *api, h header, body []byte, frame *buf.Ref) {
	k := calls.Get().(*call)
	*k = call{
		srv: c.srv, conn: c, api: a, version: h.version, correlation: h.correlation,
		client: h.client, body: body, frame: frame,
	}
	if err := k.admit(); err != nil {
		c.srv.peerLog.Info("request malformed", zap.String("api", a.name), zap.Int16("version", h.version),
			zap.Stringer("remote", c.addr), zap.Error(err))
		c.srv.metrics.refuse(refusedMalformed)
		*k = call{}
		calls.Put(k)
		c.shut(errProtocol)
		return
	}
	k.slot = c.newSlot()
	switch {
	case !c.ready && !a.open:
		k.replyIllegalState()
	case c.expired() && a.key != keySASLHandshake && a.key != keySASLAuthenticate && a.key != keyAPIVersions:
		k.abort()
	case !a.open && c.tenantGone():
		k.drop()
		c.shut(errTenantGone)
	default:
		a.handle(k)
	}
	*k = call{}
	calls.Put(k)
}

// admit checks the body before anything is made of it, takes the memory that decoding it needs, and decodes it.
func (c *call) admit() error {
	if c.api.raw {
		return nil
	}
	decoded, err := scanRequest(c.api.key, c.version, c.body)
	if err != nil {
		return err
	}
	if !c.conn.ready && decoded > maxUnauthenticatedDecoded {
		return errMalformed
	}
	if err := c.srv.requests.take(c.srv.life, &c.conn.in.lease, decoded); err != nil {
		return err
	}
	c.req = kmsg.RequestForKey(c.api.key)
	c.req.SetVersion(c.version)
	return c.req.ReadFrom(c.body)
}

// refuse closes the connection for a request that gets no answer.
func (c *conn) refuse(why refusal, h header) {
	c.srv.metrics.refuse(why)
	c.srv.peerLog.Info("request refused", zap.Stringer("reason", why), zap.Int16("api_key", h.key),
		zap.Int16("api_version", h.version), zap.Stringer("remote", c.addr))
	c.shut(errProtocol)
}
