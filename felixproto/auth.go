package felixproto

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/felixproto/wire"
)

// What this server understands and serves (native decision N10): all frame flags, and every feature but those of caches and groups.
const (
	serverFlags    = wire.KnownFlags
	serverFeatures = wire.FeatureTopology | wire.FeatureRedirect | wire.FeatureStreamShards | wire.FeatureIdempotentProducer |
		wire.FeatureErrorCodes | wire.FeatureShardMoved | wire.FeatureUnsupported | wire.FeatureSequenceReused | wire.FeaturePublishPipeline |
		wire.FeatureAtomicCommit | wire.FeatureStreamPublishWindow | wire.FeatureShardOwners | wire.FeatureAckOnCommit |
		wire.FeatureSubscriptionLagged | wire.FeatureRecordTimestamps | wire.FeaturePublishConditional | wire.FeatureStreamRead |
		wire.FeatureSubscribeQueue | wire.FeatureInspect | wire.FeatureExplicitShard
)

// authenticate reads the first frame and settles who speaks and what both sides understand. An error ends the stream.
func (st *stream) authenticate(ctx context.Context) error {
	if t := st.c.s.opts.AuthTimeout; t > 0 {
		// One stream that stalls must not outlive the time that its connection had.
		if err := st.in.SetReadDeadline(st.began.Add(t)); err != nil {
			return err
		}
	}
	if st.isStopping() {
		return errStop // stop's own deadline may have been overwritten just now
	}
	h, payload, err := st.inbox.next(ctx, st.c.s.opts.PreAuthFrame)
	if err != nil {
		if errors.Is(err, io.EOF) || st.out == nil {
			return err
		}
		return st.beforeAuth(err)
	}
	if layout, _ := h.Flags.Layout(); layout != wire.LayoutJSON {
		return errNotAuthenticated
	}
	m, err := wire.ParseRequest(payload)
	if err != nil {
		return st.beforeAuth(err)
	}
	a, ok := m.(*wire.Auth)
	if !ok {
		return errNotAuthenticated
	}
	if err := st.in.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if st.isStopping() {
		return errStop
	}
	return st.login(ctx, a)
}

var errNotAuthenticated = &refusal{code: wire.CodeUnauthenticated, message: "the first frame of a stream must be auth"}

// beforeAuth turns what is wrong with a first frame into what ends the stream: with an answer where the frame was whole.
func (st *stream) beforeAuth(err error) error {
	var (
		bad     *wire.DecodeError
		unknown *wire.UnknownTypeError
	)
	switch {
	case errors.As(err, &unknown):
		return errNotAuthenticated
	case errors.As(err, &bad) && bad.Verdict == wire.Continue:
		st.c.s.metrics.malformed(bad.Fault.String())
		if bad.Type != "auth" {
			return errNotAuthenticated
		}
		return invalid(bad.Error())
	case errors.As(err, &bad) && bad.Fault == wire.FaultTooLarge:
		// Decided on the header alone, before anything was read.
		return &wire.DecodeError{Fault: wire.FaultTooLarge, Verdict: wire.AbortStream}
	}
	return err
}

// login verifies an auth.
func (st *stream) login(ctx context.Context, a *wire.Auth) error {
	features := a.Features()
	st.features = features // codes in a refusal of this very frame
	s := st.c.s
	if s.draining.Load() {
		if !features.Has(wire.FeatureErrorCodes) {
			return errStop
		}
		return &refusal{code: wire.CodeDraining, message: "the server is shutting down"}
	}
	id, err := s.opts.Verifier.Verify(ctx, a.TenantID, a.Token)
	if err == nil && s.opts.BindCertificates {
		err = st.c.checkCertificate(id)
	}
	if err != nil {
		s.metrics.authFailed.Inc()
		s.peerLog.Info("authentication failed", zap.Stringer("peer", st.c.q.RemoteAddr()), zap.String("reason", auth.DetailOf(err)))
		return &refusal{code: wire.CodeUnauthenticated, message: "the token is not valid for this tenant"}
	}
	st.sess = st.c.login(id, s.opts.Caller(id))
	if st.out == nil {
		return nil
	}
	if !a.ClientFlags.Set {
		st.flags, st.features = wire.LegacyFlags, 0
		st.reply(&wire.OK{})
		return nil
	}
	st.flags = a.ClientFlags.Value & serverFlags
	st.commit = features.Has(wire.FeatureAckOnCommit)
	ok := &wire.AuthOK{ServerFlags: serverFlags}
	// A shard that a client names counts if and only if the client has offered to name shards. It is told that it may under the same
	// condition: where the field is ignored, a record lies elsewhere than its publisher believes.
	served := serverFeatures &^ (wire.FeatureExplicitShard &^ features)
	if s.opts.Window <= 0 {
		served &^= wire.FeaturePublishPipeline | wire.FeatureStreamPublishWindow
	} else if features.Has(wire.FeaturePublishPipeline) {
		st.window = s.opts.Window
		ok.PublishWindow = wire.Some(uint32(st.window))
	}
	ok.SetFeatures(served, features)
	st.reply(ok)
	return nil
}
