package ctl

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// settingsContext is one named set of connection settings of the context file.
type settingsContext map[string]string

// contextKeys are the keys that a context may have, one file for all three listeners.
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

var kafkaSecurities = []string{securityPlaintext, securityTLS, securitySASL, securitySASLTLS}

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
			name, ok := tableName(line)
			if !ok {
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

// tableName reads the head of a table, [context.NAME].
func tableName(line string) (name string, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] != '[' {
		return "", false
	}
	name, rest, closed := strings.Cut(line[1:], "]")
	name, isContext := strings.CutPrefix(strings.TrimSpace(name), contextTable)
	name = strings.Trim(name, `"`)
	return name, closed && isContext && name != "" && isTail(rest)
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
