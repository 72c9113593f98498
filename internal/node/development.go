package node

import (
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
	// developmentRetry is when minting that failed (a full disk) is tried again.
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
	signer            *auth.Signer
	now               func() time.Time
}

// openDevelopment publishes the development key for the profile's tenant, mints the first tokens, and writes a context for felixctl.
// Listeners must be bound. The tokens go through the same verification as any others: nothing lets them in but the key.
func (n *Node) openDevelopment(ctx context.Context, now func() time.Time) error {
	k := &n.config.Kafka
	d := &development{files: developmentFiles{developmentDir(&n.config)}, tenant: k.AnonymousTenant, namespace: k.DefaultNamespace, now: now}
	if err := os.MkdirAll(d.files.dir, 0o700); err != nil {
		return fmt.Errorf("development files: %w", err)
	}
	seed, err := d.files.seed()
	if err != nil {
		return fmt.Errorf("development key: %w", err)
	}
	if d.signer, err = auth.NewSigner("", seed); err != nil {
		return fmt.Errorf("development key: %w", err)
	}
	if err := n.publishKey(ctx, d.tenant, cluster.KeyFromSeed(seed)); err != nil {
		return fmt.Errorf("publish the development key: %w", err)
	}
	if n.addrs.Native != "" {
		// Made before anybody asks, so that the authority is there when the node says that it serves.
		if _, err := n.clientTLS(now); err != nil {
			return err
		}
	}
	if err := d.mint(); err != nil {
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

// publishKey makes a key one that verifies, and one that signs if the tenant has none that does.
func (n *Node) publishKey(ctx context.Context, tenant string, key cluster.NewSigningKey) error {
	t := n.controller.Image().Tenant(tenant)
	if t == nil {
		return fmt.Errorf("there is no tenant %s", tenant)
	}
	if _, ok := t.Key(key.ID); !ok {
		if _, err := n.propose(ctx, cluster.PutSigningKey{Tenant: tenant, Key: key}); err != nil {
			return err
		}
	}
	if _, ok := t.CurrentKey(); ok {
		return nil
	}
	_, err := n.propose(ctx, cluster.ActivateSigningKey{Tenant: tenant, ID: key.ID})
	return err
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
func (d developmentFiles) seed() ([]byte, error) {
	text, err := os.ReadFile(d.signingKey())
	if errors.Is(err, fs.ErrNotExist) {
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

// mint writes new tokens, one for each audience.
func (d *development) mint() error {
	permissions, err := developmentPermissions(d.tenant)
	if err != nil {
		return err
	}
	now := d.now()
	for audience, path := range map[string]string{auth.AudienceBroker: d.files.token(), auth.AudienceControlPlane: d.files.apiToken()} {
		token, err := auth.Mint(auth.Claims{
			Tenant: d.tenant, Principal: developmentPrincipal, Audience: audience, Permissions: permissions,
			Issued: now, Expires: now.Add(developmentTokenAge),
		}, d.signer)
		if err != nil {
			return err
		}
		if err := replaceFile(path, []byte(token+"\n")); err != nil {
			return err
		}
	}
	return nil
}

// renew mints at half of the tokens' life until ctx ends.
func (d *development) renew(ctx context.Context, logger *zap.Logger) {
	t := time.NewTimer(developmentTokenAge / 2)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := d.mint(); err != nil {
			logger.Error("development tokens cannot be renewed", zap.String("dir", d.files.dir), zap.Error(err))
			t.Reset(developmentRetry)
			continue
		}
		logger.Info("development tokens renewed", zap.String("dir", d.files.dir))
		t.Reset(developmentTokenAge / 2)
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
