package main

import (
	"encoding/json"
	"errors"
	"fmt"
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
	c.mu.Lock()
	s.Checkpoint = c.checkpoint
	s.Next = nil
	for key, st := range c.streams {
		s.Next = append(s.Next, savedStream{key.producer, key.partition, st.next})
	}
	b, err := json.MarshalIndent(s, "", " ")
	c.mu.Unlock()
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, "state.json.new")
	if err := os.WriteFile(temporary, b, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, "state.json"))
}

// loadState returns the state of an interrupted campaign on the same commit, and its checker; nil if there is none.
func loadState(dir, commit string) (*state, *checker, error) {
	b, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	s := &state{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	if s.Commit != commit {
		return nil, nil, nil
	}
	c := newChecker()
	for p, offset := range s.Checkpoint {
		c.checkpoint[p] = offset
	}
	for _, n := range s.Next {
		st := c.streamLocked(streamKey{n.Producer, n.Partition})
		st.next, st.acked = n.Next, n.Next
	}
	return s, c, nil
}
