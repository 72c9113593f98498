package ctl

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// settingsContext is one named set of connection settings of the context file.
type settingsContext map[string]string

// contextKeys are the keys that a context may have. Those that no command here uses are for the commands of the native protocol and
// of the control-plane API; a file is the same for all of them.
var contextKeys = []string{
	"brokers", "kafka_brokers", "kafka_security", "tenant", "namespace", "token", "token_file", "controlplane_url", "controlplane_token",
	"controlplane_token_file", "controlplane_ca_file", "ca_file", "client_cert_file", "client_key_file", "server_name",
}

// The values of kafka_security: how the Kafka listener is spoken to, whatever else the context holds for the other listeners. Without
// it a context's login and certificate authority count for the Kafka listener too.
const (
	securityPlaintext     = "plaintext"
	securityTLS           = "tls"
	securitySASL          = "sasl"
	securitySASLTLS       = "sasl_tls"
	maxContextFile        = 1 << 20
	contextTable          = "context."
	defaultContextSetting = "current"
)

// applyContext fills in from the context what neither a flag nor a variable gave.
func (a *app) applyContext(cmd *cobra.Command) error {
	path, named := a.contextFile, true
	if path == "" {
		path, named = defaultContextFile(environment(a.p.Environ)), false
	}
	if path == "" {
		return a.wantNoContext()
	}
	text, err := readLimited(path, maxContextFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return a.wantNoContext()
	case err != nil:
		return usageErrorf("context file: %w", err)
	}
	contexts, current, err := parseContexts(string(text))
	if err != nil {
		return usageErrorf("context file %s, %w", path, err)
	}
	name := a.contextName
	if name == "" {
		name = current
	}
	if name == "" {
		return nil
	}
	c, ok := contexts[name]
	if !ok {
		return missingErrorf("context file %s has no context %q; it has %s", path, name, strings.Join(slices.Sorted(maps.Keys(contexts)), ", "))
	}
	return a.useContext(cmd, c)
}

func (a *app) wantNoContext() error {
	if a.contextName != "" {
		return missingErrorf("there is no context file, so there is no context %q: name one with --config", a.contextName)
	}
	return nil
}

// useContext takes over the settings of c that the Kafka commands have.
func (a *app) useContext(cmd *cobra.Command, c settingsContext) error {
	security := c["kafka_security"]
	if !slices.Contains([]string{"", securityPlaintext, securityTLS, securitySASL, securitySASLTLS}, security) {
		return usageErrorf("kafka_security = %q is none of plaintext, tls, sasl, sasl_tls", security)
	}
	login := security != securityPlaintext && security != securityTLS
	secure := security != securityPlaintext && security != securitySASL
	env := environment(a.p.Environ)
	given := func(flag, variable string) bool { return cmd.Flags().Changed(flag) || env[variable] != "" }
	fill := func(into *string, flag, variable, value string) {
		if value != "" && !given(flag, variable) {
			*into = value
		}
	}
	fill(&a.brokers, "brokers", "FELIX_BROKERS", c["kafka_brokers"])
	if login {
		fill(&a.tenant, "tenant", "FELIX_AUTH_TENANT", c["tenant"])
		// One of the two, from one place: a token of the environment beats a file of the context.
		if !given("token", "FELIX_AUTH_TOKEN") && !given("token-file", "FELIX_AUTH_TOKEN_FILE") {
			a.token, a.tokenFile = c["token"], c["token_file"]
		}
	}
	if secure {
		fill(&a.caFile, "ca-file", "FELIX_CA_FILE", c["ca_file"])
		fill(&a.serverName, "server-name", "FELIX_SERVER_NAME", c["server_name"])
		a.useTLS = a.useTLS || security != ""
	}
	return nil
}

// defaultContextFile is where contexts are kept when nothing names another file; "" when the environment names no home.
func defaultContextFile(env environ) string {
	dir := env["XDG_CONFIG_HOME"]
	if dir == "" {
		home := env["HOME"]
		switch {
		case home == "":
			return ""
		case runtime.GOOS == "darwin":
			dir = filepath.Join(home, "Library", "Application Support")
		default:
			dir = filepath.Join(home, ".config")
		}
	}
	return filepath.Join(dir, "felixctl", "config.toml")
}

// parseContexts reads the context file: the part of TOML that it needs. Comments, the top-level key current, and tables
// [context.NAME] of keys with quoted texts. A key that is not known, or appears twice, is an error, which begins with the line.
func parseContexts(text string) (contexts map[string]settingsContext, current string, err error) {
	contexts = map[string]settingsContext{}
	var into settingsContext // nil above the first table
	number := 0
	bad := func(format string, args ...any) error {
		return usageErrorf("line "+strconv.Itoa(number)+": "+format, args...)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '[':
			name, rest, ok := strings.Cut(line[1:], "]")
			name, isContext := strings.CutPrefix(strings.TrimSpace(name), contextTable)
			name = strings.Trim(name, `"`)
			if !ok || !isContext || name == "" || !isTail(rest) {
				return nil, "", bad("expected [context.NAME]")
			}
			if contexts[name] != nil {
				return nil, "", bad("context %q appears twice", name)
			}
			into = settingsContext{}
			contexts[name] = into
			continue
		}
		key, value, err := parseSetting(line)
		switch {
		case err != nil:
			return nil, "", bad("%w", err)
		case into == nil && key == defaultContextSetting && !seen[key]:
			current = value
			seen[key] = true
		case into == nil:
			return nil, "", bad("unknown key %s above the first [context.NAME]", key)
		case !slices.Contains(contextKeys, key):
			return nil, "", bad("unknown key %s; the keys of a context are %s", key, strings.Join(contextKeys, ", "))
		default:
			if _, twice := into[key]; twice {
				return nil, "", bad("%s appears twice", key)
			}
			into[key] = value
		}
	}
	return contexts, current, nil
}

// parseSetting reads key = "text" or key = 'text'.
func parseSetting(line string) (key, value string, err error) {
	key, rest, ok := strings.Cut(line, "=")
	key, rest = strings.TrimSpace(key), strings.TrimSpace(rest)
	if !ok || key == "" || rest == "" {
		return "", "", errors.New(`expected key = "text"`)
	}
	switch rest[0] {
	case '\'':
		value, tail, closed := strings.Cut(rest[1:], "'")
		if closed && isTail(tail) {
			return key, value, nil
		}
	case '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err == nil && isTail(rest[len(quoted):]) {
			value, err := strconv.Unquote(quoted)
			return key, value, err
		}
	}
	return "", "", errors.New("the value of " + key + ` is no text in quotes`)
}

// isTail says that nothing but a comment follows.
func isTail(s string) bool {
	s = strings.TrimSpace(s)
	return s == "" || s[0] == '#'
}

// readLimited reads a file that may not be larger than limit.
func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() || info.Size() > limit {
		return nil, errors.New(path + " is no file of settings or tokens")
	}
	return os.ReadFile(path)
}
