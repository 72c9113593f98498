package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// Warnings are sentences for the log: unknown variables, switches that weaken something, settings without effect.
	Warnings []string
}

// Load puts the configuration together: flag before environment before file before default (or profile). It refuses, with one
// sentence that names the setting and where it came from: a value that does not parse or is out of bounds, an unknown key of the
// file, and every combination that Config.validate refuses. It reads the configuration file and nothing else.
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
	l.SingleNode = path == "" && isSingleNode(table, src.Flags, env)
	for _, s := range table {
		text, origin := s.pick(src.Flags, env, values, path, l.SingleNode)
		if err := s.bind(&l.Config).set(text); err != nil {
			if s.Secret {
				return nil, fmt.Errorf("%s (%s): %w", s.name(), origin, err)
			}
			return nil, fmt.Errorf("%s = %q (%s): %w", s.name(), text, origin, err)
		}
		l.Origins[s.name()] = origin
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	l.Warnings = append(l.warnings(), unknownVariables(env, table)...)
	return l, nil
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

// isSet says that a flag or a variable gives the setting.
func (s setting) isSet(flags, env map[string]string) bool {
	_, byFlag := flags[s.Flag]
	return byFlag && s.Flag != "" || env[s.Env] != "" && s.Env != ""
}

// isSingleNode decides whether the single-node profile applies: no file, and nothing that decides about access or membership was
// set. A flag or variable that only says where or how much (a directory, a loopback address, a size, a log level) keeps the profile,
// so that `felix serve --data-dir /tmp/x` is the same server in another place. A listen address other than loopback ends it.
func isSingleNode(table []setting, flags, env map[string]string) bool {
	for _, s := range table {
		if !s.isSet(flags, env) {
			continue
		}
		if s.Decides {
			return false
		}
		if s.Key == "kafka.listen" {
			text, _ := s.pick(flags, env, nil, "", false)
			if !isLoopback(text) {
				return false
			}
		}
	}
	return true
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
