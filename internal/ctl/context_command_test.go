package ctl

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestContextsFromAddToRemove goes through the life of contexts; what a person wrote into the file stays.
func TestContextsFromAddToRemove(t *testing.T) {
	file := filepath.Join(t.TempDir(), "felixctl", "config.toml")
	c := "--config=" + file
	want(t, exitOK, "", []string{"context", "ls", c}, "NAME")
	want(t, exitMissing, "", []string{"context", "current", c}, "felixctl context use")
	want(t, exitMissing, "", []string{"context", "use", "dev", c}, "felixctl context add")
	want(t, exitUsage, "", []string{"context", "add", "dev", c}, "needs settings")
	want(t, exitUsage, "", []string{"context", "add", "a b", "--tenant", "t", c}, "no name of a context")
	want(t, exitUsage, "", []string{"context", "add", "dev", "--kafka-security", "none", c}, "--kafka-security")
	want(t, exitMissing, "", []string{"context", "add", "dev", "--from", file, c}, "--from")

	added := decode[contextRow](t, want(t, exitOK, "", []string{
		"context", "add", "dev", "--brokers", "127.0.0.1:5001", "--kafka-brokers", "127.0.0.1:9093", "--kafka-security", "plaintext", "--tenant", "acme",
		"-n", "shop", "--token-file", "token", "--controlplane-token", "hunter2", "--use", "--json", c,
	}))
	if !added.Current || added.Brokers != "127.0.0.1:5001" || !filepath.IsAbs(added.Token) || added.ControlToken != "in the context" {
		t.Errorf("got %+v", added)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	want(t, exitFailure, "", []string{"context", "add", "dev", "--tenant", "t", c}, "felixctl context rm dev")

	// A person adds a comment and a table of their own.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mine := string(text) + "\n# the big one\n[context.prod]\ncontrolplane_url = 'https://felix.example' # behind the VPN"
	if err := os.WriteFile(file, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	got := want(t, exitOK, "", []string{"context", "ls", c}, "*  dev", "https://felix.example")
	if strings.Contains(got.out, "hunter2") {
		t.Errorf("a token is shown: %s", got.out)
	}
	want(t, exitOK, "", []string{"context", "use", "prod", c}, "context prod is the current one")
	want(t, exitOK, "", []string{"context", "current", c}, "prod\n")
	want(t, exitOK, "", []string{"context", "current", "--context", "dev", c}, "dev\n")
	want(t, exitMissing, "", []string{"context", "current", "--context", "none", c}, "it has dev, prod")
	want(t, exitOK, "", []string{"context", "add", "third", "--tenant", `a"b\c`, c}, "context third")
	want(t, exitOK, "", []string{"context", "rm", "dev", c}, "context dev is removed")
	want(t, exitMissing, "", []string{"context", "rm", "dev", c}, "no context")
	text, err = os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{"# the big one", "# behind the VPN", `current = "prod"`, `tenant = "a\"b\\c"`} {
		if !strings.Contains(string(text), kept) {
			t.Errorf("%q is gone from\n%s", kept, text)
		}
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("the removed context's token is still in\n%s", text)
	}
	want(t, exitOK, "", []string{"context", "rm", "prod", c}, "no current context now")
	want(t, exitMissing, "", []string{"context", "current", c}, "no context is in use")
	if list := decode[[]contextRow](t, want(t, exitOK, "", []string{"context", "ls", "--json", c})); len(list) != 1 || list[0].Tenant != `a"b\c` {
		t.Errorf("got %+v", list)
	}
	want(t, exitOK, "", []string{"__complete", "context", "use", c, ""}, "third\n")

	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, exitOK, "", []string{"context", "add", "open", "--token", "x", c})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file that is written again is for its owner alone: got %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	want(t, exitOK, "", []string{"context", "ls", c}, "chmod 600")
	if err := os.WriteFile(file, []byte("[context.dev]\ncolour = \"red\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitUsage, "", []string{"context", "ls", c}, "line 2: unknown key colour")
	want(t, exitUsage, "", []string{"context", "add", "dev", "--tenant", "t", c}, "unknown key colour")
	want(t, exitUsage, "", []string{"stream", "ls", c}, "unknown key colour")
	want(t, exitOK, "", []string{"version", c}, "felixctl")
}

func TestContextValidate(t *testing.T) {
	c, dev := development(t)
	want(t, exitOK, "", []string{"context", "validate", c}, "control", "native", "kafka", "token accepted for tenant default until")
	rows := decode[[]checkRow](t, want(t, exitOK, "", []string{"context", "validate", "dev", "--json", c}))
	if len(rows) != 3 || !rows[0].OK || !rows[1].OK || !rows[2].OK {
		t.Errorf("got %+v", rows)
	}
	got := want(t, exitRefused, "", []string{"context", "validate", "--token-file", filepath.Join(dev, "api-token"), "--json", c})
	rows = decode[[]checkRow](t, got)
	if !rows[0].OK || rows[1].OK || rows[1].Exit != exitRefused || !strings.Contains(rows[1].Result, "felix-controlplane") {
		t.Errorf("got %+v", rows)
	}
	want(t, exitUnreachable, "", []string{"context", "validate", "--controlplane-url", "http://" + nobody(t), c}, "FAILED", "no control API answers")
	want(t, exitMissing, "", []string{"context", "validate", "none", c}, "no context \"none\"")

	// What the node wrote is taken over under another name.
	file := "--config=" + filepath.Join(t.TempDir(), "config.toml")
	want(t, exitOK, "", []string{"context", "add", "mine", "--from", filepath.Join(dev, "felixctl.toml"), "-n", "shop", "--use", file}, "is the current one")
	want(t, exitOK, "", []string{"context", "validate", file}, "kafka")
	want(t, exitMissing, "", []string{"stream", "ls", file}, "namespace shop does not exist")
	want(t, exitOK, "", []string{"stream", "ls", "-n", "default", file}, "STREAM")
}

// TestSources: flag before environment before context, for each of the three listeners; a token of one place beats a file of another.
func TestSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	text := "current = 'c'\n[context.c]\nbrokers = 'ctx:1'\nkafka_brokers = 'ctx:2'\nkafka_security = 'plaintext'\ntoken_file = 'ctx-file'\n" +
		"controlplane_url = 'http://ctx'\ncontrolplane_token = 'ctx-token'\nnamespace = 'ctx-ns'\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		env  []string
		args []string
		want settings
	}{
		{"context", nil, []string{"sub", "s"}, settings{brokers: "ctx:1", tokenFile: "ctx-file", namespace: "ctx-ns", controlURL: "http://ctx", controlToken: "ctx-token"}},
		{"kafka_context", nil, []string{"consume", "s"}, settings{brokers: "ctx:2", namespace: "ctx-ns", controlURL: "http://ctx", controlToken: "ctx-token"}},
		{
			"environment",
			[]string{"FELIX_BROKERS=env:1", "FELIX_AUTH_TOKEN=env-token", "FELIX_NAMESPACE=env-ns", "FELIX_CONTROLPLANE_URL=http://env", "FELIX_CONTROLPLANE_TOKEN_FILE=env-file"},
			[]string{"sub", "s"},
			settings{brokers: "env:1", token: "env-token", namespace: "env-ns", controlURL: "http://env", controlTokenFile: "env-file"},
		},
		{
			"kafka_environment",
			[]string{"FELIX_BROKERS=env:1", "FELIX_KAFKA_BROKERS=env:2"},
			[]string{"consume", "s"},
			settings{brokers: "env:2", namespace: "ctx-ns", controlURL: "http://ctx", controlToken: "ctx-token"},
		},
		{
			"flag",
			[]string{"FELIX_BROKERS=env:1", "FELIX_AUTH_TOKEN=env-token", "FELIX_NAMESPACE=env-ns", "FELIX_CONTROLPLANE_URL=http://env", "FELIX_CONTROLPLANE_TOKEN=env-token"},
			[]string{"sub", "s", "--brokers", "flag:1", "--token-file", "flag-file", "-n", "flag-ns", "--controlplane-url", "http://flag", "--controlplane-token-file", "flag-file"},
			settings{brokers: "flag:1", tokenFile: "flag-file", namespace: "flag-ns", controlURL: "http://flag", controlTokenFile: "flag-file"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &app{p: Process{Environ: append(tt.env, "FELIX_CLI_CONFIG="+file)}}
			cmd, rest, err := a.root().Find(tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Fatal(err)
			}
			if err := a.prepare(cmd); err != nil {
				t.Fatal(err)
			}
			got := settings{
				brokers: a.brokers, token: a.token, tokenFile: a.tokenFile, namespace: a.namespace, controlURL: a.controlURL,
				controlToken: a.controlToken, controlTokenFile: a.controlTokenFile,
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// FuzzContextEdits: whatever a file that can be read holds, it can be read after a change, and the change alone is different.
func FuzzContextEdits(f *testing.F) {
	f.Add("current = \"dev\"\n[context.dev]\ntenant = \"t\" # x\n\n# prod\n[context.prod]\ntoken = 'y'", "dev", "a b")
	f.Add("", "x", "\"\\")
	f.Add("# only words", "dev", "ü")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		before := &contextFile{lines: slices.Collect(strings.Lines(text))}
		if before.parse() != nil || !contextNamePattern.MatchString(name) {
			return
		}
		after := &contextFile{lines: slices.Clone(before.lines)}
		if n := len(after.lines); n > 0 {
			after.lines[n-1] = strings.TrimSuffix(after.lines[n-1], "\n") + "\n"
		}
		if err := after.put(name, settingsContext{"tenant": value}); err != nil {
			return
		}
		after.setCurrent(name)
		if err := after.parse(); err != nil {
			t.Fatalf("%v in\n%s", err, strings.Join(after.lines, ""))
		}
		want := maps.Clone(before.contexts)
		if want[name] = (settingsContext{"tenant": value}); value == "" {
			want[name] = settingsContext{}
		}
		if diff := cmp.Diff(want, after.contexts); diff != "" || after.current != name {
			t.Fatalf("current %q; contexts differ:\n%s", after.current, diff)
		}
	})
}
