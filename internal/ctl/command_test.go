package ctl

import (
	"bytes"
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// result is what one run of felixctl gave.
type result struct {
	status   int
	out, err string
}

func runCtl(t *testing.T, in string, env []string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	status := Main(t.Context(), Process{Args: args, Environ: env, In: strings.NewReader(in), Out: &out, Err: &errs})
	return result{status: status, out: out.String(), err: errs.String()}
}

// nobody is an address of this machine at which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestMistakes(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown_flag", []string{"topic", "list", "--nope"}, "unknown flag: --nope (see felixctl topic list --help)"},
		{"unknown_command", []string{"topc"}, "unknown command"},
		{"near_command", []string{"topc"}, "did you mean topic?"},
		{"near_subcommand", []string{"topic", "lst"}, "did you mean list?"},
		{"value_as_argument", []string{"topic", "config", "t", "retention.ms=1000"}, "--set retention.ms=1000"},
		{"no_topic", []string{"consume"}, "is missing: felixctl "},
		{"bad_output", []string{"topic", "list", "-o", "xml"}, "neither table nor json"},
		{"bad_brokers", []string{"topic", "list", "--brokers", "here:there"}, "not host:port"},
		{"half_a_login", []string{"topic", "list", "--tenant", "acme"}, "--token"},
		{"bad_config", []string{"topic", "create", "t", "--set", "x"}, "not name=value"},
		{"bad_position", []string{"consume", "t", "--from", "noon"}, "no position"},
		{"bad_format", []string{"consume", "t", "--format", "%x"}, "unknown"},
		{"bad_acks", []string{"produce", "t", "m", "--acks", "2"}, "none of all, 1, 0"},
		{"bad_codec", []string{"produce", "t", "m", "-z", "rar"}, "none of none"},
		{"message_and_file", []string{"produce", "t", "m", "--file", "f"}, "goes without"},
		{"null_without_key", []string{"produce", "t", "--null"}, "--key"},
		{"set_and_unset", []string{"topic", "config", "t", "--set", "a=1", "--unset", "a"}, "not set in the same command"},
		{"ca_missing", []string{"topic", "list", "--ca-file", "/none.pem"}, "--ca-file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runCtl(t, "", nil, tt.args...)
			if got.status != exitUsage || got.out != "" || !strings.Contains(got.err, tt.want) {
				t.Errorf("got %+v, want status %d and %q", got, exitUsage, tt.want)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	addr := nobody(t)
	for _, args := range [][]string{{"topic", "list"}, {"produce", "t", "m"}, {"consume", "t"}, {"topic", "delete", "t", "--yes"}} {
		t.Run(args[0], func(t *testing.T) {
			got := runCtl(t, "", []string{"FELIX_BROKERS=" + addr}, args...)
			if got.status != exitUnreachable || !strings.Contains(got.err, addr) || !strings.Contains(got.err, "felix serve") {
				t.Errorf("got %+v, want status %d, the address and what to do", got, exitUnreachable)
			}
		})
	}
	got := runCtl(t, "", nil, "topic", "list", "--brokers", addr, "-o", "json")
	var line struct {
		Error string
		Exit  int
	}
	if err := json.Unmarshal([]byte(got.err), &line); err != nil || line.Exit != exitUnreachable || line.Error == "" {
		t.Errorf("got %q (%v), want an object with error and exit", got.err, err)
	}
}

func TestTokenStaysOutOfHelp(t *testing.T) {
	got := runCtl(t, "", []string{"FELIX_AUTH_TOKEN=hunter2", "FELIX_AUTH_TENANT=acme"}, "topic", "list", "--help")
	if got.status != exitOK || strings.Contains(got.out+got.err, "hunter2") {
		t.Errorf("got %+v, want help without the token", got)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := runCtl(t, "", nil, "completion", shell); got.status != exitOK || !strings.Contains(got.out, "felixctl") {
			t.Errorf("%s: got status %d", shell, got.status)
		}
	}
}

func TestVersion(t *testing.T) {
	want(t, exitOK, "", []string{"version"}, "felixctl "+Version)
	want(t, exitOK, "", []string{"version", "-o", "json"}, `"version": "`+Version+`"`)
}

func TestSeeds(t *testing.T) {
	for list, want := range map[string]string{
		"localhost": "localhost:9092", "a:1, b": "a:1 b:9092", "::1": "[::1]:9092", "[::1]": "[::1]:9092", "[::1]:5": "[::1]:5",
		"": "", "a:b:c": "", "a:": "", "a,": "", ":9092": "", "a:0": "", "a:70000": "",
	} {
		got, err := parseSeeds(list, kafkaPort)
		if strings.Join(got, " ") != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %v, %v, want %q", list, got, err, want)
		}
	}
}

// TestTopicCreateTakesTheContextFile: its --config is a file as everywhere, and name=value too.
func TestTopicCreateTakesTheContextFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "contexts.toml")
	tests := map[string]struct {
		args    []string
		environ []string
		file    string
		set     topicConfigs
	}{
		"file_first":  {[]string{"--config", file, "topic", "create", "t"}, nil, file, nil},
		"file_last":   {[]string{"topic", "create", "t", "--config=" + file}, nil, file, nil},
		"odd_file":    {[]string{"topic", "create", "t", "--config", "./a=b"}, nil, "./a=b", nil},
		"both":        {[]string{"--config", file, "topic", "create", "t", "--config", "a=1", "-c", "b=2", "--set", "c="}, nil, file, topicConfigs{"a=1", "b=2", "c="}},
		"environment": {[]string{"topic", "create", "t", "--config", "a=1"}, []string{"FELIX_CLI_CONFIG=" + file}, file, topicConfigs{"a=1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := &app{p: Process{Environ: tt.environ}}
			root := a.root()
			create, rest, err := root.Find(tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if err := create.ParseFlags(rest); err != nil {
				t.Fatal(err)
			}
			_ = a.prepare(create) // the file is not there
			set, ok := create.Flags().Lookup("set").Value.(*topicConfigs)
			if !ok || a.contextFile != tt.file || !slices.Equal(*set, tt.set) {
				t.Errorf("got file %q and %v, want %q and %v", a.contextFile, set, tt.file, tt.set)
			}
		})
	}
	want(t, exitUsage, "", []string{"topic", "create", "t", "--set", "x"}, "not name=value")
	want(t, exitUsage, "", []string{"--config", file, "topic", "create", "t"}, "context file")
}
