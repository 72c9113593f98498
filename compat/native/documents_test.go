package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/felixlog/felix/compat/peer"
)

// example is a piece of Python of a document.
type example struct {
	line int
	code string
}

// examples are the pieces of a document: what all of them begin with, and each.
func examples(page string) (setup string, found []example, err error) {
	var (
		open string // what kind of piece the line belongs to
		at   int
		text strings.Builder
	)
	number := 0
	for line := range strings.Lines(page) {
		number++
		switch word := strings.TrimSpace(line); {
		case open == "" && strings.HasPrefix(word, "```python"):
			open, at = word, number
			text.Reset()
		case open != "" && word == "```":
			switch open {
			case "```python setup":
				if setup != "" {
					return "", nil, fmt.Errorf("line %d: a second setup", at)
				}
				setup = text.String()
			case "```python example":
				found = append(found, example{at + 1, text.String()})
			default:
				return "", nil, fmt.Errorf("line %d: %q is neither setup nor example", at, open)
			}
			open = ""
		case open != "":
			text.WriteString(line)
		}
	}
	if open != "" {
		return "", nil, fmt.Errorf("line %d: a piece without an end", at)
	}
	return setup, found, nil
}

// TestDocuments runs the examples of the documents with the upstream client, each in a process of its own after the document's setup.
func TestDocuments(t *testing.T) {
	s := newServer(t)
	adm := kadm.NewClient(s.kafka(t))
	const limit = time.Minute
	streams := []string{"payments", "orders"}
	if _, err := adm.CreateTopics(t.Context(), 1, 1, nil, streams...); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the examples' streams have their leaders", func() bool {
		offsets, err := adm.ListEndOffsets(t.Context(), streams...)
		return err == nil && offsets.Error() == nil && len(offsets) == len(streams)
	})
	for _, name := range []string{"guarantees.md"} {
		page, err := os.ReadFile(filepath.Join(peer.ModuleDir(), "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		setup, found, err := examples(string(page))
		if err != nil || setup == "" || len(found) == 0 {
			t.Fatalf("%s: %d examples: %v", name, len(found), err)
		}
		for _, e := range found {
			t.Run(fmt.Sprintf("%s-line-%d", name, e.line), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				cmd := exec.CommandContext(ctx, python(), "-c", setup+"\n"+e.code)
				cmd.Env = append(os.Environ(), "FELIX_BROKERS="+s.Bound("native"), "FELIX_DEV_DIR="+filepath.Join(s.DataDir(), "dev"))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", errors.Join(err, context.Cause(ctx)), bytes.TrimSpace(out))
				}
			})
		}
	}
}
