package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// ledgerHead begins docs/campaigns.md when there is none.
const ledgerHead = `# Campaigns

Long runs of ` + "`make campaign`" + ` against real processes; compat/campaign says what each kind does and checks. A row a run; the rows of a
kind add up. The commit is the server's; + marks a tree with changes of its own.

| date | kind | commit | seed | counts | verdict |
|---|---|---|---|---|---|
`

// commit names the tree that is tested.
func commit() string {
	root := filepath.Join(peer.ModuleDir(), "..")
	out, err := exec.Command("git", "-C", root, "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	id := strings.TrimSpace(string(out))
	// Only what goes into the server counts: documents and tests do not change it.
	changed, err := exec.Command("git", "-C", root, "status", "--porcelain", "--untracked-files=no", "--", ":!docs", ":!compat").Output()
	if err == nil && len(changed) > 0 {
		id += "+"
	}
	return id
}

// appendLedger adds the campaign's row.
func appendLedger(o options, v verdict) error {
	if o.ledger == "" || os.Getenv("PEER") == string(peer.Kafka) {
		return nil
	}
	f, err := os.OpenFile(o.ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	text := ""
	if info.Size() == 0 {
		text = ledgerHead
	}
	outcome := "ok"
	if len(v.violations) > 0 {
		first, _, _ := strings.Cut(v.violations[0], "\n")
		outcome = fmt.Sprintf("**%d violations**: %s", len(v.violations), strings.ReplaceAll(first, "|", "/"))
	}
	text += fmt.Sprintf("| %s | %s | %s | %d | %s | %s |\n", time.Now().UTC().Format("2006-01-02 15:04"), o.kind, commit(), o.seed, v.counts, outcome)
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
