package ctl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/auth"
)

// startDevelopment runs a node in the single-node profile and returns its directory of development files.
func startDevelopment(t *testing.T) (dev string) {
	t.Helper()
	dir := t.TempDir()
	serveIn(t, dir)
	return filepath.Join(dir, "dev")
}

func TestTokenShow(t *testing.T) {
	dev := startDevelopment(t)
	file := filepath.Join(dev, "token")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	for name, run := range map[string]func() result{
		"file":       func() result { return runCtl(t, "", nil, "token", "show", file) },
		"stdin":      func() result { return runCtl(t, string(text), nil, "token", "show", "-") },
		"token_file": func() result { return runCtl(t, "", nil, "token", "show", "--token-file", file) },
		"variable":   func() result { return runCtl(t, "", []string{"FELIX_AUTH_TOKEN=" + token}, "token", "show") },
		"file_over_variable": func() result {
			return runCtl(t, "", []string{"FELIX_AUTH_TOKEN=a.b.c"}, "token", "show", "--token-file", file)
		},
		"file_over_file_variable": func() result {
			return runCtl(t, "", []string{"FELIX_AUTH_TOKEN_FILE=" + file + ".none"}, "token", "show", "--token-file", file)
		},
		"token_over_variables": func() result {
			return runCtl(t, "", []string{"FELIX_AUTH_TOKEN=a.b.c", "FELIX_AUTH_TOKEN_FILE=" + file + ".none"}, "token", "show", "--token", token)
		},
		"file_variable": func() result { return runCtl(t, "", []string{"FELIX_AUTH_TOKEN_FILE=" + file}, "token", "show") },
	} {
		got := run()
		if got.status != exitOK || got.err != "" || strings.Contains(got.out, token) {
			t.Errorf("%s: got %+v, want what the token says and not the token", name, got)
		}
		for _, want := range []string{"tenant", "default", "p:developer", auth.AudienceBroker, "(in 2", "allows", "tenant.manage:tenant:default"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s: got %q, want %q in it", name, got.out, want)
			}
		}
	}
	got := runCtl(t, "", nil, "token", "show", filepath.Join(dev, "api-token"), "-o", "json")
	var row tokenRow
	if err := json.Unmarshal([]byte(got.out), &row); err != nil || row.Audience != auth.AudienceControlPlane || row.Expired || row.Token != "" {
		t.Errorf("got %+v from %+v, %v", row, got, err)
	}
}

func TestTokenShowRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	tests := []struct {
		name, in string
		args     []string
		status   int
		want     string
	}{
		{"nothing", "", nil, exitUsage, "no token"},
		{"no_file", "", []string{none}, exitMissing, "none"},
		{"no_token", "secret words", []string{"-"}, exitUsage, "no Felix token"},
		{"directory", "", []string{filepath.Dir(none)}, exitUsage, "no file"},
		{"two", "", []string{"a", "b"}, exitUsage, "one argument too many"},
		{"output", "", []string{"-o", "xml"}, exitUsage, "neither table nor json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runCtl(t, tt.in, nil, append([]string{"token", "show"}, tt.args...)...)
			if got.status != tt.status || !strings.Contains(got.err, tt.want) || strings.Contains(got.err, "secret words") {
				t.Errorf("got %+v, want status %d and %q", got, tt.status, tt.want)
			}
		})
	}
}

func TestTokenMint(t *testing.T) {
	dev := startDevelopment(t)
	key := filepath.Join(dev, "signing-key.pem")
	got := runCtl(t, "", nil, "token", "mint", "--key", key, "--principal", "p:reader", "--allow", "stream.subscribe:stream:default/*/*", "--ttl", "8h")
	if got.status != exitOK {
		t.Fatalf("got %+v", got)
	}
	u, err := auth.Look(strings.TrimSuffix(got.out, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if u.Tenant != "default" || u.Principal != "p:reader" || u.Audience != auth.AudienceBroker || len(u.Permissions) != 1 || u.Expires.Sub(u.Issued) != 8*time.Hour {
		t.Errorf("got %+v", u)
	}
	// What the node published is what it was signed with: the same key id as its own tokens.
	own, err := os.ReadFile(filepath.Join(dev, "token"))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := auth.Look(strings.TrimSpace(string(own))); err != nil || o.KeyID != u.KeyID {
		t.Errorf("got key %s, want %s, %v", u.KeyID, o.KeyID, err)
	}
	got = runCtl(t, "", nil, "token", "mint", "--key", key, "--audience", "controlplane", "--tenant", "default", "--json")
	var row tokenRow
	if err := json.Unmarshal([]byte(got.out), &row); err != nil || row.Tenant != "default" || row.Audience != auth.AudienceControlPlane || row.Token == "" {
		t.Errorf("got %+v from %+v, %v", row, got, err)
	}
}

func TestTokenMintRefuses(t *testing.T) {
	dev := startDevelopment(t)
	key := filepath.Join(dev, "signing-key.pem")
	garbage := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(garbage, []byte("secret words"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"no_key", []string{"--key", garbage + "2"}, exitMissing, "felix serve"},
		{"garbage", []string{"--key", garbage}, exitUsage, "no PEM file"},
		{"certificate", []string{"--key", filepath.Join(dev, "token")}, exitUsage, "no PEM file"},
		{"audience", []string{"--key", key, "--audience", "console"}, exitUsage, "neither broker nor controlplane"},
		{"too_long", []string{"--key", key, "--ttl", "10000h"}, exitUsage, "--ttl"},
		{"too_short", []string{"--key", key, "--ttl", "0s"}, exitUsage, "--ttl"},
		{"other_tenant", []string{"--key", key, "--tenant", "acme"}, exitUsage, "POST /internal/bootstrap/tenants/acme/dev-token"},
		{"permission", []string{"--key", key, "--allow", "stream.fly:stream:a/b/c"}, exitUsage, "the actions are stream.publish, "},
		{"tenant", []string{"--key", key, "--tenant", "a/b"}, exitUsage, "a/b"},
		{"principal", []string{"--key", key, "--principal", ""}, exitUsage, "principal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runCtl(t, "", nil, append([]string{"token", "mint"}, tt.args...)...)
			if got.status != tt.status || got.out != "" || !strings.Contains(got.err, tt.want) || strings.Contains(got.err, "secret words") {
				t.Errorf("got %+v, want status %d and %q", got, tt.status, tt.want)
			}
		})
	}
}
