package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
)

const (
	// configEnv names the file of settings; --config wins over it.
	configEnv = "FELIX_BROKER_CONFIG"
	// defaultConfigFile is read when it exists and nothing names another file.
	defaultConfigFile = "/usr/local/felix/config.yml"
	envPrefix         = "FELIX_"
)

// Sources are the places a configuration is put together from. The zero value reads nothing and gives the single-node profile.
type Sources struct {
	// Flags holds the flags that were given, by name without dashes, with their text.
	Flags map[string]string
	// ConfigFile is the value of --config; empty when it was not given.
	ConfigFile string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// ReadFile reads the configuration file; nil is os.ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// Loaded is a configuration with the story of how it came about.
type Loaded struct {
	Config Config
	// Origins says for each setting, by its name in messages, where its value came from: "default", "profile single-node",
	// "file PATH", "environment NAME" or "flag --NAME".
	Origins map[string]string
	// SingleNode says that nothing about access or membership was configured, so that the single-node profile applies.
	SingleNode bool
	// ProfileEnd is what ended the single-node profile, as "flag --node-id"; "" while it applies.
	ProfileEnd string
	// Warnings are sentences for the log: unknown variables, switches that weaken something, settings without effect.
	Warnings []string
}

// Load puts the configuration together: flag before environment before file before default (or profile). It refuses, with one
// sentence each that names the setting and where it came from: values that do not parse or are out of bounds, an unknown key of the
// file, and every combination that Config.validate refuses. It reads the configuration file and nothing else.
//
// When only combinations are refused, what was put together is returned beside the error, so that a person can be shown which value
// came from where.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{Origins: map[string]string{}}
	env := environment(src.Environ)
	table := settings()
	file, path, err := readConfigFile(src, env)
	if err != nil {
		return nil, err
	}
	values, err := parseFile(file, path, table)
	if err != nil {
		return nil, err
	}
	l.ProfileEnd = profileEnd(table, src.Flags, env, path)
	l.SingleNode = l.ProfileEnd == ""
	l.Config.Development = l.SingleNode
	var bad []error
	for _, s := range table {
		text, origin := s.pick(src.Flags, env, values, path, l.SingleNode)
		if err := s.bind(&l.Config).set(text); err != nil {
			if s.Secret {
				err = fmt.Errorf("%s (%s): %w", s.name(), origin, err)
			} else {
				err = fmt.Errorf("%s = %q (%s): %w", s.name(), text, origin, err)
			}
			bad = append(bad, err)
		}
		l.Origins[s.name()] = origin
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	l.follow()
	l.Warnings = append(l.warnings(), unknownVariables(env, table)...)
	return l, l.validate()
}

// pick chooses the text of a setting and says where it is from. An empty variable counts as unset, as in most service managers; an
// empty flag or file value is a value ("off" for a listener).
func (s setting) pick(flags, env, file map[string]string, path string, profile bool) (text, origin string) {
	if v, ok := flags[s.Flag]; ok && s.Flag != "" {
		return v, "flag --" + s.Flag
	}
	if v := env[s.Env]; v != "" && s.Env != "" {
		return v, "environment " + s.Env
	}
	if v, ok := file[s.Key]; ok && s.Key != "" {
		return v, "file " + path
	}
	if profile && s.Profile != "" {
		return s.Profile, "profile single-node"
	}
	return s.Default, "default"
}

// follow gives what nobody set the value that follows from what somebody did.
func (l *Loaded) follow() {
	if n := &l.Config.Native; l.Origins["max_subscriptions_per_conn_total"] == "default" {
		n.SubscriptionsIn = 4 * min(n.Subscriptions, math.MaxInt32/4)
	}
}

// clientAddresses are the settings of the addresses at which clients log in.
var clientAddresses = []string{"kafka.listen", "quic_bind", "api_bind", "client_advertise_addr"}

// accessVariables begin the names of variables that decide about access or membership, also those that this release has no setting for: who
// says how the members of a cluster find and trust each other has not asked for an open server.
var accessVariables = []string{
	"FELIX_BOOTSTRAP_", "FELIX_CONTROLPLANE_", "FELIX_INTERNAL_", "FELIX_NODE_", "FELIX_RAFT_", "FELIX_REGION_", "FELIX_TLS_",
}

// isSet says that a flag or a variable gives the setting.
func (s setting) isSet(flags, env map[string]string) bool {
	_, byFlag := flags[s.Flag]
	return byFlag && s.Flag != "" || env[s.Env] != "" && s.Env != ""
}

// profileEnd decides whether the single-node profile applies, and says what ended it: a file, or anything set that decides about access
// or membership. A flag or variable that only says where or how much (a directory, a loopback address, a size, a log level) keeps the
// profile, so that `felix serve --data-dir /tmp/x` is the same server in another place. An address for clients other than loopback ends it.
func profileEnd(table []setting, flags, env map[string]string, path string) string {
	if path != "" {
		return "file " + path
	}
	for _, s := range table {
		if !s.isSet(flags, env) {
			continue
		}
		text, origin := s.pick(flags, env, nil, "", false)
		if s.Decides || slices.Contains(clientAddresses, s.Key) && text != "" && !isLoopback(text) {
			return origin
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		decides := slices.ContainsFunc(accessVariables, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		known := slices.ContainsFunc(table, func(s setting) bool { return s.Env == name })
		if decides && !known && !clientOnly(name) && env[name] != "" {
			return "environment " + name
		}
	}
	return ""
}

func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, envPrefix) {
			env[k] = v
		}
	}
	return env
}

// readConfigFile returns the file's bytes and its path; the path is empty when there is none. A file that somebody named must exist.
func readConfigFile(src Sources, env map[string]string) (text []byte, path string, err error) {
	read := src.ReadFile
	if read == nil {
		read = os.ReadFile
	}
	path, named := src.ConfigFile, true
	if path == "" {
		path = env[configEnv]
	}
	if path == "" {
		path, named = defaultConfigFile, false
	}
	text, err = read(path)
	switch {
	case err == nil:
		return text, path, nil
	case !named && errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	default:
		return nil, "", fmt.Errorf("configuration file: %w", err)
	}
}
