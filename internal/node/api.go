package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/controller/api"
	"github.com/felixlog/felix/internal/ids"
)

var _ api.Controller = (*controller.Controller)(nil)

// apiListeners are what the control-plane API is bound to; nil where it is off.
type apiListeners struct{ api, bootstrap net.Listener }

// close gives the ports back when nobody serves them.
func (l apiListeners) close() error {
	return errors.Join(closeListener(l.api), closeListener(l.bootstrap))
}

// bindAPI binds the API's listener and, if it is on, that of bootstrap.
func (n *Node) bindAPI(ctx context.Context) (l apiListeners, err error) {
	if n.config.APIListen != "" {
		if l.api, err = listen(ctx, n.config.APIListen); err != nil {
			return l, listenError("the API", "api-listen", err)
		}
		n.addrs.API = l.api.Addr().String()
	}
	if b := &n.config.API; b.Bootstrap {
		if l.bootstrap, err = listen(ctx, b.BootstrapListen); err != nil {
			return l, errors.Join(fmt.Errorf("listen for bootstrap (FELIX_BOOTSTRAP_BIND_ADDR): %w", err), l.close())
		}
		n.addrs.Bootstrap = l.bootstrap.Addr().String()
	}
	return l, nil
}

// serveAPI lets the API answer on what was bound.
func (n *Node) serveAPI(l apiListeners, now func() time.Time) error {
	if l.api == nil && l.bootstrap == nil {
		return nil
	}
	conf, err := n.apiTLS(now)
	if err != nil {
		return err
	}
	c := &n.config.API
	bootstrapTLS, err := c.bootstrapTLS()
	if err != nil {
		return err
	}
	server, err := api.New(api.Options{
		Controller: n.controller, Verifier: n.verifiers.api, TLS: conf, Region: c.Region,
		ClientAddr: func(node ids.NodeID) string {
			if string(node) == n.config.NodeID {
				return n.nativeAddress()
			}
			return ""
		},
		Ready:        func(context.Context) error { return n.controller.Ready() },
		ReadyTimeout: c.ReadyTimeout, ReadyCache: c.ReadyCache,
		Bootstrap: api.BootstrapOptions{
			Token: c.BootstrapToken, Previous: c.BootstrapPrevious, DevTokens: c.DevTokens, TLS: bootstrapTLS, APIURL: n.apiURL(),
			Permissions: developmentPermissions, TokenTTL: c.TokenTTL,
		},
		Logger: n.parts, Registerer: n.registry, Now: now,
	})
	if err != nil {
		return fmt.Errorf("make the API: %w", err)
	}
	n.api = server
	serve := func(what string, ln net.Listener, run func(net.Listener) error) {
		if ln == nil {
			return
		}
		n.wg.Go(func() {
			if err := run(ln); !errors.Is(err, api.ErrServerClosed) {
				n.failed <- fmt.Errorf("listen for %s: %w", what, err)
			}
		})
	}
	serve("the API", l.api, server.Serve)
	serve("bootstrap", l.bootstrap, server.ServeBootstrap)
	return nil
}

// apiURL is where the API is found, as this machine dials it where nothing better is known; empty when it is off.
func (n *Node) apiURL() string {
	switch {
	case n.addrs.API == "":
		return ""
	case n.config.TLS.APICertFile != "":
		return "https://" + dialable(n.addrs.API)
	default:
		return "http://" + dialable(n.addrs.API)
	}
}

// bootstrapTLS is the TLS configuration of the bootstrap listener; nil is plain HTTP. Encrypting without authenticating is not offered.
func (c *APIConfig) bootstrapTLS() (*tls.Config, error) {
	if c.BootstrapCertFile == "" {
		return nil, nil // none: plain HTTP
	}
	conf, err := readTLS(c.BootstrapCertFile, c.BootstrapKeyFile, c.BootstrapClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("FELIX_BOOTSTRAP_TLS_CERT, _KEY and _CLIENT_CA: %w", err)
	}
	return conf, nil
}

// drainAPI stops the API and answers the calls that run, within the budget.
func (n *Node) drainAPI(ctx context.Context, budget time.Duration) error {
	if n.api == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errDrainDeadline)
	defer cancel()
	err := n.api.Close(ctx)
	if err == nil {
		return nil
	}
	n.metrics.drainForced.WithLabelValues(subsystemAPI).Inc()
	n.logger.Warn("API calls cut off", zap.Error(err))
	return errors.Join(ErrForced, err)
}
