package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/udp"
)

// What streams offer beside what they need: every frame and message that this package understands.
const (
	plainFlags    = wire.KnownFlags &^ (wire.FlagPublisher | wire.FlagTimestamps)
	plainFeatures = wire.FeatureTopology | wire.FeatureRedirect | wire.FeatureStreamShards | wire.FeatureIdempotentProducer |
		wire.FeatureErrorCodes | wire.FeatureShardMoved | wire.FeatureUnsupported | wire.FeatureSequenceReused | wire.FeatureAtomicCommit |
		wire.FeatureStreamPublishWindow | wire.FeatureShardOwners | wire.FeatureSubscriptionLagged | wire.FeatureRecordTimestamps |
		wire.FeaturePublishConditional | wire.FeatureStreamRead | wire.FeatureSubscribeQueue | wire.FeatureInspect |
		wire.FeatureExplicitShard
)

// Codes that streams are given up with. They have no meaning to the server.
const noError = 0

// helloTimeout bounds how long an event stream may stay without its first frame.
const helloTimeout = 10 * time.Second

// conn is one connection. It ends by itself when the server is silent for too long; whoever uses it then gets a ConnectionError.
type conn struct {
	c    *Client
	addr string
	q    *quic.Conn
	wg   sync.WaitGroup // event streams that say hello, and their acceptor

	transport *quic.Transport
	socket    net.PacketConn

	subscriptions atomic.Int32 // event streams that are open or being opened

	mu      sync.Mutex
	waiting map[uint64]chan *quic.ReceiveStream // guarded by mu: subscriptions whose event stream has not come
	lastID  uint64                              // guarded by mu: of subscriptions
}

// dial connects. Nothing is authenticated yet: that is a matter of each stream.
func (c *Client) dial(ctx context.Context, addr string) (*conn, error) {
	caller := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.DialTimeout, errDialTimeout)
	defer cancel()
	cn := &conn{c: c, addr: addr, waiting: map[uint64]chan *quic.ReceiveStream{}}
	if err := cn.open(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if caller.Err() == nil { // or else it is given up, and may have been about to succeed
			c.tell(addr, err)
		}
		return nil, &ConnectionError{Addr: addr, Err: err}
	}
	c.mu.Lock()
	c.newest[addr] = cn
	c.mu.Unlock()
	c.tell(addr, nil)
	cn.wg.Go(cn.acceptEvents)
	return cn, nil
}

func (c *Client) tell(addr string, err error) {
	if c.cfg.OnConnection != nil {
		c.cfg.OnConnection(addr, err)
	}
}

// ended tells of a connection that was lost. Of an older one nothing is told: one that was made after it says more about the server.
func (cn *conn) ended() {
	<-cn.q.Context().Done() // streams end a little before, and only this says why
	c, why := cn.c, context.Cause(cn.q.Context())
	c.mu.Lock()
	newest := c.newest[cn.addr] == cn
	if newest {
		delete(c.newest, cn.addr)
	}
	c.mu.Unlock()
	var closed *quic.ApplicationError
	if ours := errors.As(why, &closed) && !closed.Remote; newest && !ours {
		c.tell(cn.addr, why)
	}
}

// open opens a socket of the connection's own, so that connections are received in parallel, and connects.
func (cn *conn) open(ctx context.Context) error {
	remote, err := resolve(ctx, cn.addr)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	packets, err := listen.ListenPacket(ctx, "udp", ":0")
	if err != nil {
		return err
	}
	cn.socket = packets
	if socket, ok := packets.(*net.UDPConn); ok {
		if packets, err = udp.New(socket); err != nil {
			return errors.Join(err, socket.Close())
		}
	}
	cn.transport = &quic.Transport{Conn: packets}
	if cn.q, err = cn.transport.Dial(ctx, remote, cn.c.tls, cn.c.quic); err != nil {
		cn.release()
	}
	return err
}

// resolve looks an address up as long as ctx lasts.
func resolve(ctx context.Context, addr string) (*net.UDPAddr, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	return &net.UDPAddr{IP: ips[0].IP, Zone: ips[0].Zone, Port: number}, nil
}

// release gives the socket back.
func (cn *conn) release() {
	_ = cn.transport.Close()
	_ = cn.socket.Close()
}

var (
	errDialTimeout = errors.New("no answer")
	errSilent      = errors.New("the server keeps the connection and does not answer")
)

// answering bounds how long a server may take to authenticate a stream, or to answer what it knows by itself. The transport alone would not
// notice a server that hangs: its keep-alives go on.
func (cn *conn) answering(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cn.c.cfg.DialTimeout, &ConnectionError{Addr: cn.addr, Err: errSilent})
}

// close ends the connection and waits for its goroutines.
func (cn *conn) close() {
	_ = cn.q.CloseWithError(noError, "")
	cn.wg.Wait()
}

func (cn *conn) alive() bool { return cn.q.Context().Err() == nil }

// acceptEvents takes the server's event streams until the connection ends, and cleans up behind it.
func (cn *conn) acceptEvents() {
	defer cn.release()
	defer cn.ended()
	ctx := cn.q.Context()
	for {
		q, err := cn.q.AcceptUniStream(ctx)
		if err != nil {
			return
		}
		cn.wg.Go(func() { cn.welcome(q) })
	}
}

// welcome reads the first frame of an event stream, which says whose it is. A stream that nobody waits for is given up.
func (cn *conn) welcome(q *quic.ReceiveStream) {
	_ = q.SetReadDeadline(time.Now().Add(helloTimeout))
	_, payload, err := wire.ReadFrame(q, nil, wire.PreAuthMaxFrameBytes)
	if err == nil {
		var m wire.Message
		if m, err = wire.ParseReply(payload); err == nil {
			if hello, ok := m.(*wire.EventStreamHello); ok {
				if ch := cn.claim(hello.SubscriptionID); ch != nil {
					_ = q.SetReadDeadline(time.Time{})
					ch <- q
					return
				}
			}
		}
	}
	q.CancelRead(noError)
}

// claim takes the channel that waits for an event stream; it has room for one.
func (cn *conn) claim(id uint64) chan *quic.ReceiveStream {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	ch := cn.waiting[id]
	delete(cn.waiting, id)
	return ch
}

// await makes a subscription id of this connection and the channel on which its event stream will come.
func (cn *conn) await() (uint64, chan *quic.ReceiveStream) {
	ch := make(chan *quic.ReceiveStream, 1)
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.lastID++
	cn.waiting[cn.lastID] = ch
	return cn.lastID, ch
}

// forsake undoes await. A stream that has come meanwhile is given up.
func (cn *conn) forsake(id uint64, ch chan *quic.ReceiveStream) {
	cn.mu.Lock()
	_, unclaimed := cn.waiting[id]
	delete(cn.waiting, id)
	cn.mu.Unlock()
	if unclaimed {
		return
	}
	select {
	case q := <-ch:
		q.CancelRead(noError)
	case <-cn.q.Context().Done(): // whoever claimed it sends at once
	}
}

// exchange is a bidirectional stream of ours. Its first frame authenticates it.
type exchange struct {
	cn  *conn
	q   *quic.Stream
	in  *bufio.Reader
	buf []byte // of the last frame
	ok  *wire.AuthOK
}

// offer is what a stream is opened with.
type offer struct {
	flags    wire.Flags
	features wire.Features
	// first goes out behind the authentication without waiting for its answer; only says that nothing follows it.
	first wire.Message
	only  bool
}

// stream opens a stream and authenticates it. A token that is refused is tried again once if the source has got another.
func (cn *conn) stream(ctx context.Context, o offer) (*exchange, error) {
	token, err := cn.c.cfg.Token.Token(ctx)
	if err != nil {
		return nil, &ConnectionError{Addr: cn.addr, Err: err} // it may come back, as a file that is being replaced does
	}
	x, err := cn.streamAs(ctx, token, o)
	if !errors.Is(err, ErrUnauthenticated) {
		return x, err
	}
	fresh, again := cn.c.cfg.Token.Token(ctx)
	if again != nil || fresh == token {
		return nil, err
	}
	return cn.streamAs(ctx, fresh, o)
}

func (cn *conn) streamAs(ctx context.Context, token string, o offer) (*exchange, error) {
	q, err := cn.q.OpenStreamSync(ctx)
	if err != nil {
		return nil, cn.lost(ctx, err)
	}
	ctx, cancel := cn.answering(ctx)
	defer cancel()
	x := &exchange{cn: cn, q: q, in: bufio.NewReaderSize(q, 4<<10)}
	stop := x.bind(ctx)
	defer stop()
	auth := &wire.Auth{TenantID: cn.c.cfg.Tenant, Token: token, ClientFlags: wire.Some(o.flags)}
	auth.SetFeatures(o.features)
	frame := wire.AppendMessage(nil, auth)
	if o.first != nil {
		frame = wire.AppendMessage(frame, o.first)
	}
	if err := x.write(ctx, frame); err != nil {
		return nil, err
	}
	if o.only {
		_ = q.Close()
	}
	m, err := x.message(ctx)
	if err == nil {
		switch m := m.(type) {
		case *wire.AuthOK:
			x.ok = m
			return x, nil
		default:
			err = refusal(m)
		}
	}
	x.abandon()
	return nil, err
}

// bind makes the stream end with ctx. The returned function undoes that.
func (x *exchange) bind(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		x.q.CancelRead(noError)
		x.q.CancelWrite(noError)
	})
}

// abandon gives the stream up. A stream that is not read to its end would hold its credit, so this is called also for those that are.
func (x *exchange) abandon() {
	x.q.CancelRead(noError)
	x.q.CancelWrite(noError)
}

// finish ends a stream after its last answer.
func (x *exchange) finish() {
	_ = x.q.Close()
	x.q.CancelRead(noError)
}

func (x *exchange) write(ctx context.Context, b []byte) error {
	if _, err := x.q.Write(b); err != nil {
		return x.cn.lost(ctx, err)
	}
	return nil
}

// frame reads the next frame. The payload is good until the next call.
func (x *exchange) frame(ctx context.Context) (wire.Flags, []byte, error) {
	h, payload, err := wire.ReadFrame(x.in, x.buf, x.cn.c.cfg.MaxFrameBytes)
	if err != nil {
		return 0, nil, x.cn.lost(ctx, err)
	}
	x.buf = payload
	return h.Flags, payload, nil
}

// message reads a JSON frame.
func (x *exchange) message(ctx context.Context) (wire.Message, error) {
	flags, payload, err := x.frame(ctx)
	if err != nil {
		return nil, err
	}
	if flags != 0 {
		return nil, fmt.Errorf("%w: flags %v where a message belongs", ErrProtocol, flags)
	}
	m, err := wire.ParseReply(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return m, nil
}

// lost says why reading or writing failed: because the call's time is over, because of what the server sent, or because of the connection.
func (cn *conn) lost(ctx context.Context, err error) error {
	var bad *wire.DecodeError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &bad) && bad.Fault != wire.FaultTruncated && bad.Fault != wire.FaultShortHeader:
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	case errors.Is(err, io.EOF):
		err = errStreamEnded
	}
	if cause := context.Cause(cn.q.Context()); cause != nil {
		err = cause
	}
	return &ConnectionError{Addr: cn.addr, Err: err}
}

var errStreamEnded = errors.New("the server has ended the stream")

// refusal is the error that an answer is. An answer that is none is a violation of the protocol.
func refusal(m wire.Message) error {
	switch m := m.(type) {
	case *wire.Error:
		return failure(&m.Failure)
	case *wire.PublishError:
		return failure(&m.Failure)
	case *wire.Unsupported:
		return &Error{Code: CodeUnsupported, Class: ClassFatal, Message: "the server does not serve " + m.RequestType}
	case *wire.NotLeader:
		return &notLeader{node: m.NodeID, addr: m.Addr}
	case *wire.SubscribeCursorError:
		return &CursorError{Reason: string(m.Reason), Requested: offsetOf(m.Requested), Available: offsetOf(m.Available)}
	case *wire.PublishRefused:
		switch m.Reason {
		case wire.RefusedNotLeader:
			return &notLeader{node: m.NodeID, addr: m.Addr}
		case wire.RefusedOffsetMismatch:
			return &OffsetMismatchError{Tail: offsetOf(m.Tail)}
		default:
			return &SequenceError{Reason: string(m.Reason)}
		}
	}
	return fmt.Errorf("%w: %s is no answer to this", ErrProtocol, wire.TypeOf(m))
}

// call sends one request on a stream of its own and reads its answer.
func (cn *conn) call(ctx context.Context, m wire.Message) (wire.Message, error) {
	o := offer{flags: plainFlags, features: plainFeatures, first: m, only: true}
	named := namesShard(m)
	if named {
		o.first, o.only = nil, false // to be sent only if the server does not ignore the shard
	}
	x, err := cn.stream(ctx, o)
	if err != nil {
		return nil, err
	}
	defer x.finish()
	stop := x.bind(ctx)
	defer stop()
	if named {
		if !x.ok.Features().Has(wire.FeatureExplicitShard) {
			return nil, errShardNotTaken
		}
		if err := x.write(ctx, wire.AppendMessage(nil, m)); err != nil {
			return nil, err
		}
		_ = x.q.Close()
	}
	answer, err := x.message(ctx)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// namesShard says that a request names its shard where it need not.
func namesShard(m wire.Message) bool {
	switch m := m.(type) {
	case *wire.PublishIf:
		return m.Shard.Set
	case *wire.Commit:
		return m.Shard.Set
	case *wire.StateGet:
		return m.Shard.Set
	}
	return false
}

// ask is call for requests with one kind of answer, which comes soon.
func ask[A wire.Message](ctx context.Context, cn *conn, m wire.Message) (A, error) {
	ctx, cancel := cn.answering(ctx)
	defer cancel()
	answer, err := cn.call(ctx, m)
	if err != nil {
		var none A
		return none, err
	}
	a, ok := answer.(A)
	if !ok {
		return a, refusal(answer)
	}
	return a, nil
}
