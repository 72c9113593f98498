package kafkaproto

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// handler answers one request. It runs on the goroutine that read the request, so what it waits for holds up the requests
// behind it on that connection and nothing else. It must call exactly one of reply, replyThenClose and drop before it
// returns, save the handlers of produce and fetch and those that use answerLater, which leave the slot to whoever completes it later.
type handler func(c *call)

// api is one row of the table of served APIs.
type api struct {
	key  int16
	name string // as Kafka's documents write it; a metric label
	// min and max are the versions served. A request outside closes the connection, as with the reference broker.
	min, max int16
	// advertised is the lowest version shown in ApiVersions. It differs from min for Produce only: old librdkafka
	// switches compression off unless version 0 is in the range (KAFKA-18659).
	advertised int16
	// flexible is the first version with compact encodings and tagged fields; none when there is no such version.
	flexible int16
	// throttle is the first version whose clients wait out throttle_time_ms by themselves (KIP-219); none when the
	// answer has no such field. Older ones rely on the connection being muted.
	throttle int16
	// open APIs are served before a connection has authenticated.
	open bool
	// raw handlers decode call.body themselves; for the others call.req is decoded before they run.
	raw bool
	// handle is nil while the API is not served.
	handle handler
}

// none marks a version that no version reaches.
const none int16 = 1<<15 - 1

func (a *api) isFlexible(version int16) bool { return version >= a.flexible }

func (a *api) serves(version int16) bool { return version >= a.min && version <= a.max }

// dataAPIs are the rows of connections, producing and consuming.
func dataAPIs() []api {
	return []api{
		{key: 0, name: "Produce", min: 3, max: 13, advertised: 0, flexible: 9, throttle: 6, raw: true, handle: handleProduce},
		{key: 1, name: "Fetch", min: 4, max: 18, advertised: 4, flexible: 12, throttle: 8, raw: true, handle: handleFetch},
		{key: 3, name: "Metadata", min: 0, max: 13, advertised: 0, flexible: 9, throttle: 6, handle: handleMetadata},
		{key: 17, name: "SaslHandshake", min: 0, max: 1, advertised: 0, flexible: none, throttle: none, open: true, handle: handleSASLHandshake},
		{key: 18, name: "ApiVersions", min: 0, max: 4, advertised: 0, flexible: 3, throttle: 2, open: true, handle: handleAPIVersions},
		{key: 36, name: "SaslAuthenticate", min: 0, max: 2, advertised: 0, flexible: 2, throttle: none, open: true, handle: handleSASLAuthenticate},
	}
}

// servedAPIs are all rows, those of groups only if there is a coordinator.
func servedAPIs(withGroups bool) [][]api {
	if withGroups {
		return [][]api{dataAPIs(), adminAPIs(), operatorAPIs(), groupAPIs()}
	}
	return [][]api{dataAPIs(), adminAPIs(), operatorAPIs()}
}

// apiTable finds the row of an API key.
type apiTable struct {
	byKey []*api // index: key; nil where nothing is served
	rows  []*api // ascending keys
}

// newAPITable builds the table from rows; those without a handler are left out, so they are neither served nor advertised.
func newAPITable(groups ...[]api) *apiTable {
	t := &apiTable{}
	for _, rows := range groups {
		for i := range rows {
			a := &rows[i]
			if a.handle == nil {
				continue
			}
			for int(a.key) >= len(t.byKey) {
				t.byKey = append(t.byKey, nil)
			}
			t.byKey[a.key] = a
		}
	}
	for _, a := range t.byKey {
		if a != nil {
			t.rows = append(t.rows, a)
		}
	}
	return t
}

// maxThrottle keeps throttling well below the request time-outs of clients.
const maxThrottle = 5 * time.Second

// find returns the row of key, or nil.
func (t *apiTable) find(key int16) *api {
	if key < 0 || int(key) >= len(t.byKey) {
		return nil
	}
	return t.byKey[key]
}

// call is one request while its handler runs. Handlers must not keep it, nor anything that points into frame (body, client
// and every []byte of req; strings of req are copies).
type call struct {
	srv         *Server
	conn        *conn
	api         *api
	slot        *slot // where the answer goes
	version     int16
	correlation int32
	client      []byte       // client id, nil when null; points into frame
	body        []byte       // what follows the request header; points into frame
	frame       *buf.Ref     // the request's bytes; retain it to keep them
	req         kmsg.Request // decoded body, version set; nil for raw APIs
	failure     errcode.Kind // first failure that code or fail was told of, for the request metric
}

// context ends when the server closes. Use it for everything that a handler waits for.
func (c *call) context() context.Context { return c.srv.life }

// caller is who sent the request; never nil. It is the zero Caller before authentication.
func (c *call) caller() *Caller { return &c.conn.caller }

// view is the metadata that the request is answered by. To a caller whose tenant has gone meanwhile it is empty: a tenant that was made under
// its name since is another one's. Its connection is being closed.
func (c *call) view() *cluster.Image {
	img := c.srv.node.Image()
	if caller := c.caller(); caller.Known() && !img.HasTenant(caller.Tenant, caller.Incarnation) {
		return cluster.NewImage(img.Defaults())
	}
	return img
}

// code is the wire code of err for this API and version, and notes the failure for the metric. nil gives 0.
func (c *call) code(err error) int16 {
	if err == nil {
		return 0
	}
	return c.kindCode(errcode.Of(err))
}

// kindCode is code for a bare kind.
func (c *call) kindCode(k errcode.Kind) int16 {
	if k == errcode.OK {
		return 0
	}
	if c.failure == errcode.OK {
		c.failure = k
	}
	return wireCode(k, c.api.key, c.version)
}

// describe is code and the sentence for people that goes beside it; nil for no error.
func (c *call) describe(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	text := err.Error()
	return c.code(err), &text
}

// response makes the empty answer to req, of the request's version. Set what the constructor of kmsg leaves at a value that
// means something: see rows 7 and 8 of the notes on kmsg in the specification.
func (c *call) response() kmsg.Response {
	resp := c.req.ResponseKind()
	resp.SetVersion(c.version)
	return resp
}

// reply sends resp as the answer. Its version must be the request's, as ResponseKind sets it (an error answer to
// ApiVersions is the one exception). The handler must not touch c afterwards.
func (c *call) reply(resp kmsg.Response) {
	r := newResponse()
	r.begin(c.correlation, c.api, c.version)
	r.head = resp.AppendTo(r.head)
	c.finish(r)
}

// replyCharged is reply for answers that may be large: the memory of one counts until it is written.
func (c *call) replyCharged(resp kmsg.Response) {
	r := newResponse()
	r.begin(c.correlation, c.api, c.version)
	r.head = resp.AppendTo(r.head)
	if n := int64(len(r.head)); n > keptResponse {
		c.srv.answers.force(n)
		r.charge = n
	}
	c.finish(r)
}

// replyThenClose is reply, after which the connection is closed once the answer and those before it are written.
func (c *call) replyThenClose(resp kmsg.Response) {
	c.conn.ending.Store(true)
	c.reply(resp)
}

// finish hands a ready response over to the connection's ordered writer.
func (c *call) finish(r *response) {
	c.count()
	c.conn.complete(c.slot, r)
}

// drop ends the request without an answer: for acks=0.
func (c *call) drop() {
	c.count()
	c.conn.complete(c.slot, nil)
}

// abort closes the connection without an answer: for requests that the protocol has no error for.
func (c *call) abort() {
	c.drop()
	c.conn.shut(errProtocol)
}

// malformed is abort for a raw request whose body is not what its header says.
func (c *call) malformed() {
	c.failure = errcode.InvalidRequest
	c.srv.metrics.refuse(refusedMalformed)
	c.srv.peerLog.Info("request malformed", zap.String("api", c.api.name), zap.Int16("version", c.version), zap.Stringer("remote", c.conn.addr))
	c.abort()
}

// throttle makes the connection read nothing for d after the request (KIP-124, KIP-219), at most maxThrottle. It returns the
// throttle_time_ms to answer with.
func (c *call) throttle(d time.Duration) int32 {
	if d <= 0 {
		return 0
	}
	c.conn.mute(min(d, maxThrottle))
	return throttleMillis(d)
}

// throttleMillis is throttle_time_ms for a hold of d.
func throttleMillis(d time.Duration) int32 {
	if d <= 0 {
		return 0
	}
	return int32(max(min(d, maxThrottle).Milliseconds(), 1))
}

func (c *call) count() { c.srv.metrics.request(c.api, c.failure) }
