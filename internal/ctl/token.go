package ctl

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/auth"
)

const (
	// developmentKey is where a node in the single-node profile keeps its signing key, seen from where it was started.
	developmentKey = "data/dev/signing-key.pem"
	// developmentTenant is the one tenant that it signs for.
	developmentTenant = "default"
	// maxMintedAge bounds what token mint gives out: a token cannot be taken back one by one.
	maxMintedAge = 30 * 24 * time.Hour
)

func (a *app) tokenCommand() *cobra.Command {
	token := &cobra.Command{
		Use: "token", Short: "Show what a token says; make one for a development node",
		Args: subcommands, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	token.AddCommand(a.tokenShow(), a.tokenMint())
	return token
}

// tokenRow is what a token says.
type tokenRow struct {
	Tenant      string     `json:"tenant"`
	Principal   string     `json:"principal"`
	Actor       string     `json:"actor,omitempty"`
	Audience    string     `json:"audience"`
	KeyID       string     `json:"key_id,omitempty"`
	Issued      time.Time  `json:"issued"`
	NotBefore   *time.Time `json:"not_before,omitempty"`
	Expires     time.Time  `json:"expires"`
	Expired     bool       `json:"expired"`
	Permissions []string   `json:"permissions"`
	Token       string     `json:"token,omitempty"` // of mint alone
}

func (a *app) tokenShow() *cobra.Command {
	return &cobra.Command{
		Use: "show [FILE]", Short: "Show what a token says, without the token itself",
		Long: `Show what a token says: whom it is for and what it allows. The token is that of FILE ("-" is standard input), or else of
--token or --token-file. It is not verified: only a server can tell whether it takes the token.`,
		Example: "  felixctl token show data/dev/token\n  felixctl token show - < data/dev/api-token",
		Args:    optional,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := a.tokenText(args)
			if err != nil {
				return err
			}
			row, err := describeToken(text, time.Now())
			if err != nil {
				return err
			}
			return a.emit(row, []string{"FIELD", "VALUE"}, row.table())
		},
	}
}

// tokenText finds the token to show.
func (a *app) tokenText(args []string) (string, error) {
	path := a.tokenFile
	switch {
	case len(args) == 1:
		path = args[0]
	case a.token != "":
		return a.token, nil
	case path == "":
		return "", usageErrorf("no token: name its file, or give --token or --token-file")
	}
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(a.p.In, auth.MaxTokenBytes+2))
	} else {
		text, err = readLimited(path, auth.MaxTokenBytes+2)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", missingErrorf("%w", err)
	}
	if err != nil {
		return "", usageErrorf("read the token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func describeToken(token string, now time.Time) (tokenRow, error) {
	u, err := auth.Look(token)
	if err != nil {
		return tokenRow{}, usageErrorf("this is no Felix token (%s)", auth.DetailOf(err))
	}
	row := tokenRow{
		Tenant: u.Tenant, Principal: u.Principal, Actor: u.Actor, Audience: u.Audience, KeyID: u.KeyID,
		Issued: u.Issued.UTC(), Expires: u.Expires.UTC(), Expired: !now.Before(u.Expires), Permissions: u.Permissions,
	}
	if !u.NotBefore.IsZero() {
		at := u.NotBefore.UTC()
		row.NotBefore = &at
	}
	return row, nil
}

func (r *tokenRow) table() [][]string {
	end := "expired"
	if !r.Expired {
		end = "in " + time.Until(r.Expires).Round(time.Second).String()
	}
	rows := [][]string{{"tenant", r.Tenant}, {"principal", r.Principal}}
	if r.Actor != "" {
		rows = append(rows, []string{"acting", r.Actor})
	}
	rows = append(rows, []string{"audience", r.Audience}, []string{"key", r.KeyID}, []string{"issued", r.Issued.Format(time.RFC3339)})
	if r.NotBefore != nil {
		rows = append(rows, []string{"not before", r.NotBefore.Format(time.RFC3339)})
	}
	rows = append(rows, []string{"expires", r.Expires.Format(time.RFC3339) + " (" + end + ")"})
	for _, p := range r.Permissions {
		rows = append(rows, []string{"allows", p})
	}
	return rows
}

func (a *app) tokenMint() *cobra.Command {
	var key, principal, audience string
	var permissions []string
	var life time.Duration
	mint := &cobra.Command{
		Use: "mint", Short: "Make a token with the signing key of a development node",
		Long: `Make a token for the tenant default with the signing key that a node in the single-node profile keeps in its
data directory, and print it. Rights are action:object, as in stream.publish:stream:default/shop/orders; without any the token allows
everything in the tenant. The node takes it as any token that its tenant's key has signed. Other tenants have keys of their own, which
no file holds: their tokens come from the bootstrap listener (docs/control-api.md, "The first token").`,
		Example: "  felixctl token mint --ttl 8h\n  felixctl token mint --audience controlplane\n" +
			"  felixctl token mint --principal p:reader --allow 'stream.subscribe:stream:default/*/*'",
		Args: noArgs,
	}
	mint.Flags().StringVar(&key, "key", developmentKey, "`file` of the signing key, PEM")
	mint.Flags().StringVar(&principal, "principal", "p:developer", "whom the token is for")
	mint.Flags().StringVar(&audience, "audience", "broker", "`broker` for the client listeners, controlplane for the API")
	mint.Flags().StringArrayVar(&permissions, "allow", nil, "`action:object`; may be given several times")
	mint.Flags().DurationVar(&life, "ttl", time.Hour, "how long it lasts, at most 720h")
	must(mint.RegisterFlagCompletionFunc("audience", cobra.FixedCompletions([]string{"broker", "controlplane"}, cobra.ShellCompDirectiveNoFileComp)))
	mint.RunE = func(*cobra.Command, []string) error {
		claims := auth.Claims{Tenant: a.tenant, Principal: principal, Issued: time.Now()}
		if claims.Tenant == "" {
			claims.Tenant = developmentTenant
		}
		if claims.Tenant != developmentTenant {
			return usageErrorf("a development node's key signs for the tenant %s alone, and tenant %s would refuse the token: start the node with "+
				"FELIX_BOOTSTRAP_ENABLED=true, FELIX_BOOTSTRAP_TOKEN and FELIX_BOOTSTRAP_DEV_TOKENS=true, and ask its bootstrap listener: "+
				"POST /internal/bootstrap/tenants/%s/dev-token (docs/control-api.md; these settings end the development profile)", developmentTenant, claims.Tenant, claims.Tenant)
		}
		switch audience {
		case "broker", auth.AudienceBroker:
			claims.Audience = auth.AudienceBroker
		case "controlplane", auth.AudienceControlPlane:
			claims.Audience = auth.AudienceControlPlane
		default:
			return usageErrorf("--audience %q is neither broker nor controlplane", audience)
		}
		if life < time.Second || life > maxMintedAge {
			return usageErrorf("--ttl %s is not between 1s and %s", life, maxMintedAge)
		}
		claims.Expires = claims.Issued.Add(life)
		if len(permissions) == 0 {
			permissions = []string{"tenant.manage:tenant:" + claims.Tenant}
		}
		for _, p := range permissions { // one by one: places in a list say little to whoever wrote flags
			if _, err := auth.ParsePermission(p); err != nil {
				action, _, _ := strings.Cut(p, ":")
				return usageErrorf("--allow: %w%s", err, knownActions(action))
			}
		}
		var err error
		if claims.Permissions, err = auth.ParsePermissions(permissions); err != nil {
			return usageErrorf("--allow: %w", err)
		}
		return a.mint(key, claims)
	}
	return mint
}

func (a *app) mint(keyFile string, claims auth.Claims) error {
	signer, err := readSigner(keyFile)
	if err != nil {
		return err
	}
	token, err := auth.Mint(claims, signer)
	if err != nil {
		return usageErrorf("%w", err)
	}
	if !a.json() {
		_, err := fmt.Fprintln(a.p.Out, token)
		return err
	}
	row, err := describeToken(token, claims.Issued)
	if err != nil {
		return err
	}
	row.Token = token
	return a.emit(row, nil, nil)
}

// readSigner reads a signing key. Errors do not quote the file.
func readSigner(path string) (*auth.Signer, error) {
	text, err := readLimited(path, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingErrorf("no signing key at %s: start `felix serve` there once without settings, or name the key with --key", path)
	}
	if err != nil {
		return nil, usageErrorf("--key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, usageErrorf("--key: %s is no PEM file", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, usageErrorf("--key: %s holds no private key", path)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, usageErrorf("--key: %s holds a key that is not Ed25519", path)
	}
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok {
		return nil, usageErrorf("--key: %s holds a key that is not Ed25519", path)
	}
	return auth.NewSigner(auth.DevelopmentKeyID(public), private.Seed())
}
