package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// totals are the counts of a kill campaign, over interruptions.
type totals struct {
	Kills      int   `json:"kills"`       // all SIGKILLs
	StartKills int   `json:"start_kills"` // of them, while the server started
	CleanStops int   `json:"clean_stops"` // restarts without a kill, under load
	Acks       int64 `json:"acks"`
	Records    int64 `json:"records"`  // read and checked
	Clean      int   `json:"clean"`    // offline verdicts: nothing to repair
	Repaired   int   `json:"repaired"` // offline verdicts: start-up repairs
	SlowestMS  int64 `json:"slowest_ms"`
	Topics     int   `json:"topics"` // written, read whole and deleted
}

func (t totals) String() string {
	return fmt.Sprintf("%d kills (%d while starting), %d clean restarts, %d acknowledged, %d read, log verify %d clean %d to repair, slowest start %v, %d topics",
		t.Kills, t.StartKills, t.CleanStops, t.Acks, t.Records, t.Clean, t.Repaired, time.Duration(t.SlowestMS)*time.Millisecond, t.Topics)
}

// state is what an interrupted kill campaign leaves for the next run: enough to check the log from where the last check ended.
type state struct {
	Commit     string          `json:"commit"`
	Totals     totals          `json:"totals"`
	Generation int             `json:"generation"` // of producers' names and topics
	Topic      string          `json:"topic"`
	Checkpoint map[int32]int64 `json:"checkpoint"`
	Next       []savedStream   `json:"next"`
}

// savedStream is how far one producer's records in one partition were checked.
type savedStream struct {
	Producer  string `json:"producer"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
}

// save writes the state after a completed round.
func (s *state) save(dir string, c *checker) error {
	s.Checkpoint, s.Next = c.saved()
	return writeState(dir, s)
}

// saved is what an interrupted campaign keeps of a checker: how far each partition and each producer's records in it were checked.
func (c *checker) saved() (map[int32]int64, []savedStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next []savedStream
	for key, st := range c.streams {
		next = append(next, savedStream{key.producer, key.partition, st.next})
	}
	return maps.Clone(c.checkpoint), next
}

// restoredChecker goes on where a saved one was.
func restoredChecker(checkpoint map[int32]int64, next []savedStream) *checker {
	c := newChecker()
	maps.Copy(c.checkpoint, checkpoint)
	for _, n := range next {
		st := c.streamLocked(streamKey{n.Producer, n.Partition})
		st.next, st.acked = n.Next, n.Next
	}
	return c
}

// writeState replaces the state file.
func writeState(dir string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, "state.json.new")
	if err := os.WriteFile(temporary, b, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, "state.json"))
}

// readState reads the state file into v; found is false if there is none.
func readState(dir string, v any) (found bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%s: %w", dir, err)
	}
	return true, nil
}

// loadState returns the state of an interrupted campaign on the same commit, and its checker; nil if there is none.
func loadState(dir, commit string) (*state, *checker, error) {
	s := &state{}
	found, err := readState(dir, s)
	if err != nil || !found || s.Commit != commit {
		return nil, nil, err
	}
	return s, restoredChecker(s.Checkpoint, s.Next), nil
}
