package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/felixproto"
)

// bindNative binds the socket of native clients; nil when the listener is off.
func (n *Node) bindNative(ctx context.Context) (*net.UDPConn, error) {
	if n.config.NativeListen == "" {
		return nil, nil // a listener that is off is no error
	}
	c := &n.config.Native
	udp, err := felixproto.Listen(ctx, n.config.NativeListen, int(c.UDPReceive), int(c.UDPSendBuffer))
	if err != nil {
		return nil, listenError("native clients", "native-listen", err)
	}
	n.addrs.Native = udp.LocalAddr().String()
	return udp, nil
}

// nativeAddress is what native clients are told: they take IP:port alone, and a wildcard is nowhere to go.
func (n *Node) nativeAddress() string {
	if a := n.config.Native.Advertise; a != "" {
		return a
	}
	at, err := netip.ParseAddrPort(n.addrs.Native)
	if err != nil || at.Addr().IsUnspecified() {
		return ""
	}
	return n.addrs.Native
}

// serveNative lets the native listener answer on udp, which is the listener's from then on.
func (n *Node) serveNative(ctx context.Context, udp *net.UDPConn, verifier felixproto.Verifier, now func() time.Time) error {
	c := &n.config.Native
	conf, err := n.clientTLS(now)
	if err != nil {
		return err
	}
	resetKey, err := readOrMakeSecret(n.path("native-reset.key"))
	if err != nil {
		return fmt.Errorf("key of connection resets: %w", err)
	}
	server, err := felixproto.New(felixproto.Options{
		ResetKey: resetKey,
		Broker:   n.broker, Verifier: verifier, Caller: callerOf, Pool: n.pool, TLS: conf,
		RequireALPN: n.config.TLS.RequireALPN, BindCertificates: n.config.TLS.BindSubject,
		NodeID: n.config.NodeID, Advertise: n.nativeAddress(),
		MaxConnections: orUnlimited(c.MaxConnections, math.MaxInt32), MaxConnectionsPerAddress: orUnlimited(c.MaxConnectionsPerIP, -1),
		AuthTimeout: orNever(c.AuthTimeout), PreAuthFrame: int(c.PreAuthFrame), PreAuthStreams: c.PreAuthStreams, MaxFrame: int(c.MaxFrame),
		IdleTimeout: c.IdleTimeout, KeepAlive: c.KeepAlive, MaxStreamWindow: int(c.StreamWindow), MaxConnWindow: int(c.ConnWindow),
		MemoryBudget: n.config.MemoryBudgetBytes,
		Window:       orUnlimited(c.Window, -1), AckOnCommit: c.AckOnCommit, IngressWait: c.IngressWait,
		ConnBytes: int(c.ConnInflightBytes), ConnTotalBytes: int(c.ConnInTotal),
		AnswerTimeout: max(c.AckWait, n.config.QuorumTimeout+500*time.Millisecond), RoomWait: c.QueueWait,
		QueueCapacity: c.SubQueueCapacity, QueueLargest: c.SubQueueLargest, QueueBytes: int(c.SubQueueBytes),
		WriteBytes: int(c.WriteBytes), EventsPerFrame: c.EventsPerFrame, BytesPerFrame: int(c.BytesPerFrame),
		MaxDecodedBytes: int(n.config.MaxBatchDecodedBytes), RecordsPerRead: c.RecordsPerRead,
		Subscriptions: c.Subscriptions, SubscriptionsIn: c.SubscriptionsIn,
		Logger: n.parts, Registerer: n.registry, Now: now,
	})
	if err != nil {
		return fmt.Errorf("make native listener: %w", err)
	}
	n.native = server
	serving := context.WithoutCancel(ctx)
	n.wg.Go(func() {
		if err := server.Serve(serving, udp); !errors.Is(err, felixproto.ErrServerClosed) {
			n.failed <- fmt.Errorf("listen for native clients: %w", err)
		}
	})
	return nil
}

// orNever turns a setting's 0, which is "never", into what an option says for that.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// drainNative lets the native clients go within the budget.
func (n *Node) drainNative(ctx context.Context, budget time.Duration) error {
	if n.native == nil {
		return nil
	}
	n.logger.Info("waiting for native requests to be answered", zap.Duration("at_most", budget))
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errDrainDeadline)
	defer cancel()
	return n.native.Close(ctx)
}

// readOrMakeSecret reads a secret of 32 bytes from a file, or makes one. A file of another size is one that a crash cut short.
func readOrMakeSecret(name string) (secret [32]byte, err error) {
	b, err := os.ReadFile(name)
	if err == nil && len(b) == len(secret) {
		return [32]byte(b), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return secret, err
	}
	if _, err := rand.Read(secret[:]); err != nil {
		return secret, err
	}
	return secret, os.WriteFile(name, secret[:], 0o600)
}

func closeSocket(udp *net.UDPConn) error {
	if udp == nil {
		return nil
	}
	if err := udp.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
