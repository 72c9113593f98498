package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// ledgerHead begins docs/campaigns.md when there is none.
const ledgerHead = `# Campaigns

Long runs of ` + "`make campaign`" + ` against real processes; compat/campaign says what each kind does and checks. A row a run; the rows of a
kind add up. The commit is what the server was built from.

| date | kind | commit | seed | counts | verdict |
|---|---|---|---|---|---|
`

// serverVersion is what the binary under test says of itself: the commit that it was built from, with a mark if the tree had changes.
func serverVersion() (string, error) {
	if os.Getenv("PEER") == string(peer.Kafka) {
		return "kafka", nil
	}
	out, err := exec.Command(felixBinary(), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", felixBinary(), err)
	}
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return "", errors.New("felix --version says nothing")
	}
	return words[len(words)-1], nil
}

// appendLedger adds the campaign's row.
func appendLedger(o options, v verdict) error {
	if o.ledger == "" || v.nothing && len(v.violations) == 0 || os.Getenv("PEER") == string(peer.Kafka) {
		return nil
	}
	version, err := serverVersion()
	if err != nil {
		return err
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
	text += fmt.Sprintf("| %s | %s | %s | %d | %s | %s |\n", time.Now().UTC().Format("2006-01-02 15:04"), o.kind, version, o.seed, v.counts, outcome)
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
