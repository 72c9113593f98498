package node

import (
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes the outcome of Load as YAML, each value with its origin as a comment. Values that a file may not hold are printed as
// comments by their variable, so that the output is itself a file that Load takes; secrets are <redacted> or <unset>.
func (l *Loaded) Print(w io.Writer) error {
	if l.SingleNode {
		if _, err := fmt.Fprintln(w, "# The single-node profile: nothing about access or membership is configured."); err != nil {
			return err
		}
	}
	if beside := l.beside(); len(beside) > 0 {
		const line = "# A file cannot hold these; for the same node set them beside it, in the environment: %s\n"
		if _, err := fmt.Fprintf(w, line, strings.Join(beside, " ")); err != nil {
			return err
		}
	}
	group := ""
	for _, s := range settings() {
		text, err := l.printed(s)
		if err != nil {
			return err
		}
		key, indent := s.Key, ""
		if g, rest, nested := strings.Cut(s.Key, "."); nested {
			if g != group {
				if _, err := fmt.Fprintln(w, g+":"); err != nil {
					return err
				}
			}
			group, key, indent = g, rest, "  "
		} else if s.Key != "" {
			group = ""
		} else {
			key, indent = "# "+s.Env, map[bool]string{true: "  "}[group != ""]
		}
		if _, err := fmt.Fprintf(w, "%s%s: %s  # %s\n", indent, key, text, l.Origins[s.name()]); err != nil {
			return err
		}
	}
	return nil
}

// beside lists, as NAME=value, what a file cannot hold and is not at its default. A secret is its name alone.
func (l *Loaded) beside() []string {
	var out []string
	for _, s := range settings() {
		text := s.bind(&l.Config).get()
		switch {
		case s.Key != "" || text == s.Default:
		case s.Secret:
			out = append(out, s.Env)
		default:
			out = append(out, s.Env+"="+text)
		}
	}
	return out
}

func (l *Loaded) printed(s setting) (string, error) {
	text := s.bind(&l.Config).get()
	if s.Secret {
		if text == "" {
			return "<unset>", nil
		}
		return "<redacted>", nil
	}
	if text == "" {
		return `""`, nil
	}
	// Through the YAML encoder, so that a text with a colon or a number-like name is quoted where it must be.
	var v any = text
	if s.Kind == "bool" || s.Kind == "n" || s.Kind == "ms" || s.Kind == "s" || s.Kind == "min" {
		return text, nil
	}
	out, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(out), "\n"), err
}
