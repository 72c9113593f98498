package ctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseContexts(t *testing.T) {
	const text = "# mine\ncurrent = \"dev\" # the usual one\n\n[context.dev]\nkafka_brokers = \"127.0.0.1:9092\"\ntoken_file = 'C:\\a b'\n\n" +
		"[ context.\"prod eu\" ]\ntenant = \"a\\\"b\"\nca_file = \"\"\n"
	contexts, current, err := parseContexts(text)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]settingsContext{
		"dev":     {"kafka_brokers": "127.0.0.1:9092", "token_file": `C:\a b`},
		"prod eu": {"tenant": `a"b`, "ca_file": ""},
	}
	if diff := cmp.Diff(want, contexts); diff != "" || current != "dev" {
		t.Errorf("current %q, %s", current, diff)
	}
}

func TestParseContextsRefuses(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"unknown_key", "[context.a]\nbroker = \"x\"", "line 2: unknown key broker"},
		{"unknown_top_key", "default = \"x\"", "line 1: unknown key default"},
		{"current_twice", "current = \"a\"\ncurrent = \"b\"", "line 2"},
		{"key_twice", "[context.a]\ntenant = \"x\"\ntenant = \"y\"", "line 3: tenant appears twice"},
		{"context_twice", "[context.a]\n[context.a]", "line 2"},
		{"other_table", "[contexts]", "expected [context.NAME]"},
		{"open_table", "[context.a", "expected [context.NAME]"},
		{"no_name", "[context.]", "expected [context.NAME]"},
		{"no_text", "current = dev", "no text in quotes"},
		{"open_text", "current = \"dev", "no text in quotes"},
		{"more_after_it", "current = 'dev' x", "no text in quotes"},
		{"no_value", "current =", "expected key"},
		{"no_setting", "current", "expected key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := parseContexts(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestContextPrecedence: flag before environment before context before default.
func TestContextPrecedence(t *testing.T) {
	dir := t.TempDir()
	a, b, c := nobody(t), nobody(t), nobody(t)
	file := filepath.Join(dir, "felixctl", "config.toml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "current = \"one\"\n[context.one]\nkafka_brokers = \"" + a + "\"\n[context.two]\nkafka_brokers = \"" + b + "\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	home := "XDG_CONFIG_HOME=" + dir
	tests := []struct {
		name string
		env  []string
		args []string
		want string // address that was dialled
	}{
		{"current", []string{home}, nil, a},
		{"named_file", nil, []string{"--config", file}, a},
		{"variable_file", []string{"FELIX_CLI_CONFIG=" + file}, nil, a},
		{"named_context", []string{home}, []string{"--context", "two"}, b},
		{"variable_context", []string{home, "FELIX_CONTEXT=two"}, nil, b},
		{"environment", []string{home, "FELIX_BROKERS=" + c}, nil, c},
		{"flag", []string{home, "FELIX_BROKERS=" + a}, []string{"--brokers", c}, c},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runCtl(t, "", tt.env, append([]string{"topic", "list"}, tt.args...)...)
			if got.status != exitUnreachable || !strings.Contains(got.err, tt.want) {
				t.Errorf("got %+v, want %s dialled", got, tt.want)
			}
		})
	}
	if got := runCtl(t, "", []string{home}, "topic", "list", "--context", "three"); got.status != exitMissing || !strings.Contains(got.err, "one, two") {
		t.Errorf("an unknown context: got %+v", got)
	}
	if got := runCtl(t, "", nil, "topic", "list", "--context", "three"); got.status != exitMissing {
		t.Errorf("a context without a file: got %+v", got)
	}
	if got := runCtl(t, "", nil, "topic", "list", "--config", file+"2"); got.status != exitUsage {
		t.Errorf("a named file that is missing: got %+v", got)
	}
}

// TestContextSecurity: what a context says of the other listeners does not change how the Kafka one is spoken to.
func TestContextSecurity(t *testing.T) {
	for name, want := range map[string]struct{ login, secure bool }{
		"plaintext": {}, "tls": {secure: true}, "sasl": {login: true}, "sasl_tls": {true, true}, "": {true, true},
	} {
		a := &app{}
		root := a.root()
		c := settingsContext{"tenant": "t", "token_file": "f", "ca_file": "ca.pem", "server_name": "s", "kafka_security": name}
		if err := a.take(root, kafkaServer, c); err != nil {
			t.Fatal(err)
		}
		if login := a.tenant == "t" && a.tokenFile == "f"; login != want.login {
			t.Errorf("%q: got login %v, want %v", name, login, want.login)
		}
		if a.tls() != want.secure {
			t.Errorf("%q: got TLS %v, want %v", name, a.tls(), want.secure)
		}
	}
	if err := (&app{}).take((&app{}).root(), kafkaServer, settingsContext{"kafka_security": "none"}); err == nil {
		t.Error("an unknown word was taken")
	}
}

// TestDevelopmentContext: the file that a development node writes leads felixctl to it.
func TestDevelopmentContext(t *testing.T) {
	dev := startDevelopment(t)
	got := runCtl(t, "", nil, "--config", filepath.Join(dev, "felixctl.toml"), "topic", "list")
	if got.status != exitOK || !strings.Contains(got.out, "NAME") {
		t.Errorf("got %+v", got)
	}
}

func FuzzContexts(f *testing.F) {
	f.Add("current = \"dev\"\n[context.dev]\nkafka_brokers = \"127.0.0.1:9092\" # x\n")
	f.Add("[context.\"a\"]\ntoken = 'x'\n")
	f.Fuzz(func(t *testing.T, in string) {
		contexts, _, err := parseContexts(in)
		if err != nil && contexts != nil {
			t.Error("contexts beside an error")
		}
		for _, c := range contexts {
			for key := range c {
				if !strings.Contains(strings.Join(contextKeys, " "), key) {
					t.Errorf("key %q got through", key)
				}
			}
		}
	})
}
