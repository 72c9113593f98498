package node

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

const (
	// developmentTokenAge is how long a development token lasts. New ones are minted at the start and at half of it.
	developmentTokenAge = day
	// developmentRetry is how often it is looked whether to mint, and so when a failure (a full disk) is tried again.
	developmentRetry = time.Minute
	// developmentPrincipal is whom the tokens are for.
	developmentPrincipal = "p:developer"
)

// developmentDir holds what the node keeps for the person at this machine, and the generated certificate.
func developmentDir(c *Config) string { return filepath.Join(c.DataDir, "dev") }

// developmentFiles are the files of the single-node profile, all of mode 0600.
type developmentFiles struct{ dir string }

func (d developmentFiles) signingKey() string { return filepath.Join(d.dir, "signing-key.pem") } // kept across restarts
func (d developmentFiles) token() string      { return filepath.Join(d.dir, "token") }           // for the client listeners
func (d developmentFiles) apiToken() string   { return filepath.Join(d.dir, "api-token") }       // for the control-plane API
func (d developmentFiles) context() string    { return filepath.Join(d.dir, "felixctl.toml") }

// development keeps the tokens of the single-node profile fresh.
type development struct {
	files             developmentFiles
	tenant, namespace string
	now               func() time.Time
	// publish makes a key the profile's own, and the only one; known says whether a key is published as that.
	publish func(context.Context, cluster.NewSigningKey) error
	known   func(cluster.NewSigningKey) bool

	key    cluster.NewSigningKey
	minted time.Time // by the clock on the wall: a machine that slept is behind by any other
}

func developmentKey(seed []byte) cluster.NewSigningKey {
	k := cluster.KeyFromSeed(seed)
	k.ID = auth.DevelopmentKeyPrefix + k.ID
	return k
}

// openDevelopment publishes the development key for the profile's tenant, mints the first tokens, and writes a context for felixctl.
// Listeners must be bound. The tokens go through the same verification as any others: nothing lets them in but the key.
func (n *Node) openDevelopment(ctx context.Context, now func() time.Time) error {
	k := &n.config.Kafka
	d := &development{
		files: developmentFiles{developmentDir(&n.config)}, tenant: k.AnonymousTenant, namespace: k.DefaultNamespace, now: now,
	}
	d.publish = func(ctx context.Context, key cluster.NewSigningKey) error {
		return n.publishDevelopmentKey(ctx, d.tenant, key)
	}
	d.known = func(key cluster.NewSigningKey) bool { return n.hasKey(d.tenant, key.Seed) }
	if err := os.MkdirAll(d.files.dir, 0o700); err != nil {
		return fmt.Errorf("development files: %w", err)
	}
	if n.addrs.Native != "" {
		// Made before anybody asks, so that the authority is there when the node says that it serves.
		if _, err := n.clientTLS(now); err != nil {
			return err
		}
	}
	if err := d.mint(ctx); err != nil {
		return fmt.Errorf("development tokens: %w", err)
	}
	if err := replaceFile(d.files.context(), d.felixctlContext(n.addrs)); err != nil {
		return fmt.Errorf("development context: %w", err)
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stopDev = stop
	n.wg.Go(func() { d.renew(renewing, n.logger) })
	return nil
}

// closeDevelopment ends the renewal. The files stay: the tokens in them are good until they expire.
func (n *Node) closeDevelopment() {
	if n.stopDev != nil {
		n.stopDev()
	}
}

// hasKey says that a tenant has a published key of a seed, whatever its id.
func (n *Node) hasKey(tenant string, seed []byte) bool {
	t := n.controller.Image().Tenant(tenant)
	return t != nil && slices.ContainsFunc(t.Keys, func(k cluster.SigningKey) bool { return bytes.Equal(k.Seed, seed) })
}

// publishDevelopmentKey makes a key the one that verifies what the profile signs. It signs for the tenant if no other key does. Those that
// the profile had before are retired: without the file, what they signed ends with them.
func (n *Node) publishDevelopmentKey(ctx context.Context, tenant string, key cluster.NewSigningKey) error {
	t := n.controller.Image().Tenant(tenant)
	if t == nil {
		return fmt.Errorf("there is no tenant %s", tenant)
	}
	if _, ok := t.Key(key.ID); !ok {
		if len(t.Keys) >= cluster.MaxSigningKeys {
			if err := n.retireDevelopmentKeys(ctx, key.Seed, key.ID); err != nil {
				return err
			}
			if t = n.controller.Image().Tenant(tenant); t == nil {
				return fmt.Errorf("there is no tenant %s", tenant)
			}
		}
		if _, err := n.propose(ctx, cluster.PutSigningKey{Tenant: tenant, Key: key}); err != nil {
			return err
		}
	}
	if k, ok := t.CurrentKey(); !ok || isDevelopmentKey(k, key.Seed) && k.ID != key.ID {
		if _, err := n.propose(ctx, cluster.ActivateSigningKey{Tenant: tenant, ID: key.ID}); err != nil {
			return err
		}
	}
	return n.retireDevelopmentKeys(ctx, key.Seed, key.ID)
}

// isDevelopmentKey: keys of the profile were once published under the ids of all keys, and then only the file with the seed tells.
func isDevelopmentKey(k cluster.SigningKey, seed []byte) bool {
	return strings.HasPrefix(k.ID, auth.DevelopmentKeyPrefix) || len(seed) > 0 && bytes.Equal(k.Seed, seed)
}

// retireDevelopmentKeys retires every key of the profile, but for one ("": none is spared). Where such a key signs, another signs from now on.
func (n *Node) retireDevelopmentKeys(ctx context.Context, seed []byte, spared string) error {
	for _, t := range n.controller.Image().Tenants() {
		for _, k := range slices.Backward(t.Keys) { // the one that signs comes last: the others make room for what follows it
			if k.ID == spared || !isDevelopmentKey(k, seed) {
				continue
			}
			if k.State == cluster.KeyCurrent {
				if err := n.replaceSigningKey(ctx, t.Name, seed); err != nil {
					return err
				}
			}
			if _, err := n.propose(ctx, cluster.RetireSigningKey{Tenant: t.Name, ID: k.ID}); err != nil {
				return err
			}
			n.logger.Info("development key retired", zap.String("tenant", t.Name), zap.String("kid", k.ID))
		}
	}
	return nil
}

// replaceSigningKey has another key sign for a tenant than one of the profile: one that is staged for it, else a new one. A tenant that has
// no room for a new one goes back to one that signed before.
func (n *Node) replaceSigningKey(ctx context.Context, tenant string, seed []byte) error {
	t := n.controller.Image().Tenant(tenant)
	if t == nil {
		return fmt.Errorf("there is no tenant %s", tenant)
	}
	of := func(state cluster.KeyState) string {
		for _, k := range t.Keys {
			if k.State == state && !isDevelopmentKey(k, seed) {
				return k.ID
			}
		}
		return ""
	}
	id := of(cluster.KeyStaged)
	if id == "" && len(t.Keys) >= cluster.MaxSigningKeys {
		id = of(cluster.KeyPrevious)
	}
	if id == "" {
		next, err := newSigningKey()
		if err != nil {
			return err
		}
		if _, err := n.propose(ctx, cluster.PutSigningKey{Tenant: tenant, Key: next}); err != nil {
			return err
		}
		id = next.ID
	}
	_, err := n.propose(ctx, cluster.ActivateSigningKey{Tenant: tenant, ID: id})
	return err
}

// endDevelopment takes back what the single-node profile left behind, for a node that is configured now: its keys are retired, of which one
// can act on the whole cluster, and the files of credentials that nothing takes any more are removed.
func (n *Node) endDevelopment(ctx context.Context) error {
	files := developmentFiles{developmentDir(&n.config)}
	seed, err := files.readSeed()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.logger.Warn("development key cannot be read", zap.Error(err)) // it is retired by its name, if it was published under one
	}
	if err := n.retireDevelopmentKeys(ctx, seed, ""); err != nil {
		return fmt.Errorf("retire the development key: %w", err)
	}
	if seed == nil {
		return nil // no key of ours lies there
	}
	for _, path := range []string{files.token(), files.apiToken(), files.context(), files.signingKey()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what the development profile left: %w", err)
		}
	}
	return nil
}

func newSigningKey() (cluster.NewSigningKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return cluster.NewSigningKey{}, err
	}
	return cluster.KeyFromSeed(seed), nil
}

// replaceFile replaces a file for the node's user alone, whole for whoever reads it meanwhile. It does not wait for the disk as
// writeSynced does: what is written with it is made anew at each start.
func replaceFile(path string, text []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// seed reads the development key, or makes one. A file that holds something else is not overwritten: it may be the only copy of a key.
func (d developmentFiles) seed() (seed []byte, made bool, err error) {
	seed, err = d.readSeed()
	if errors.Is(err, fs.ErrNotExist) {
		seed, err = d.newSeed()
		return seed, true, err
	}
	return seed, false, err
}

// newSeed draws a key and puts it in the place of the one that is there.
func (d developmentFiles) newSeed() ([]byte, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return nil, err
	}
	text, err := pemKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		return nil, err
	}
	return seed, writeSynced(d.signingKey(), text)
}

func (d developmentFiles) readSeed() ([]byte, error) {
	text, err := os.ReadFile(d.signingKey())
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM file; remove it for a new key", d.signingKey())
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s holds no private key; remove it for a new one", d.signingKey()) // the cause could quote the file
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a key that is not Ed25519; remove it for a new one", d.signingKey())
	}
	return private.Seed(), nil
}

// developmentPermissions are what the tokens allow: everything in the profile's tenant, and of the cluster what a person at their own
// machine needs: to see it, and to make and remove tenants.
func developmentPermissions(tenant string) ([]auth.Permission, error) {
	return auth.ParsePermissions([]string{
		"tenant.manage:tenant:" + tenant, "rbac.view:tenant:" + tenant, "rbac.policy.manage:tenant:" + tenant,
		"rbac.assignment.manage:tenant:" + tenant, "tenant.manage:cluster:*", "node.view:cluster:*",
	})
}

// settle sees to it that the key in the file is the one that the profile's tenant has. A key that was published once and is not any more was
// retired, or its tenant went: it is never published again, and a new one takes its place.
func (d *development) settle(ctx context.Context) error {
	seed, made, err := d.files.seed()
	if err != nil {
		return err
	}
	if !made && !d.known(cluster.NewSigningKey{Seed: seed}) {
		if seed, err = d.files.newSeed(); err != nil {
			return err
		}
	}
	d.key = developmentKey(seed)
	if err := d.publish(ctx, d.key); err != nil {
		return fmt.Errorf("publish the development key: %w", err)
	}
	return nil
}

// mint writes new tokens, one for each audience, signed by a key that is published.
func (d *development) mint(ctx context.Context) error {
	if err := d.settle(ctx); err != nil {
		return err
	}
	signer, err := auth.NewSigner(d.key.ID, d.key.Seed)
	if err != nil {
		return err
	}
	permissions, err := developmentPermissions(d.tenant)
	if err != nil {
		return err
	}
	now := d.now()
	for audience, path := range map[string]string{auth.AudienceBroker: d.files.token(), auth.AudienceControlPlane: d.files.apiToken()} {
		token, err := auth.Mint(auth.Claims{
			Tenant: d.tenant, Principal: developmentPrincipal, Audience: audience, Permissions: permissions,
			Issued: now, Expires: now.Add(developmentTokenAge),
		}, signer)
		if err != nil {
			return err
		}
		if err := replaceFile(path, []byte(token+"\n")); err != nil {
			return err
		}
	}
	d.minted = now.Round(0)
	return nil
}

// stale says that the tokens are past half of their life, or that the clock was set back by as much.
func (d *development) stale() bool {
	age := d.now().Round(0).Sub(d.minted)
	return age >= developmentTokenAge/2 || age <= -developmentTokenAge/2
}

// renew mints at half of the tokens' life until ctx ends. It looks at the clock on the wall time and again: a timer for half a day would
// stand still while the machine sleeps.
func (d *development) renew(ctx context.Context, logger *zap.Logger) {
	t := time.NewTicker(developmentRetry)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if !d.stale() {
			continue
		}
		if err := d.mint(ctx); err != nil {
			logger.Error("development tokens cannot be renewed", zap.String("dir", d.files.dir), zap.Error(err))
			continue
		}
		logger.Info("development tokens renewed", zap.String("dir", d.files.dir))
	}
}

// felixctlContext is a file of settings for felixctl, with the addresses as this machine dials them.
func (d *development) felixctlContext(a Addresses) []byte {
	path := func(p string) string {
		if abs, err := filepath.Abs(p); err == nil {
			return abs
		}
		return p
	}
	var b strings.Builder
	b.WriteString("# Written by felix at each start: felixctl --config FILE, or FELIX_CLI_CONFIG=FILE.\ncurrent = \"dev\"\n\n[context.dev]\n")
	set := func(key, value string) {
		if value != "" {
			b.WriteString(key + " = " + strconv.Quote(value) + "\n")
		}
	}
	if a.Native != "" {
		set("brokers", dialable(a.Native))
		set("ca_file", path(developmentCert{d.files.dir}.ca()))
		set("server_name", "localhost")
	}
	if a.Kafka != "" {
		set("kafka_brokers", dialable(a.Kafka))
		set("kafka_security", "plaintext")
	}
	set("tenant", d.tenant)
	set("namespace", d.namespace)
	set("token_file", path(d.files.token()))
	if a.API != "" {
		set("controlplane_url", "http://"+dialable(a.API))
		set("controlplane_token_file", path(d.files.apiToken()))
	}
	return []byte(b.String())
}
