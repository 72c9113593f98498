package report

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// Tools is the name under which the outcomes of Apache Kafka's command-line tools are kept; no client of the suite has it.
const Tools = "java tools"

// Results are the outcomes of one run against one peer. They may be noted from several tests at once.
type Results struct {
	mu       sync.Mutex
	Peer     peer.Kind                    `json:"peer"`
	Date     string                       `json:"date"`
	Versions map[string]string            `json:"versions"`
	Cases    map[string]map[string]bool   `json:"cases"`             // number, then client: passed
	Lacking  map[string]map[string]string `json:"lacking,omitempty"` // number, then client: why the case is not for this client
	Matrix   map[string]map[string]int    `json:"matrix"`            // writer, then reader: codecs that came through whole
}

// New returns the results of a run that starts now.
func New(kind peer.Kind) *Results {
	return &Results{
		Peer: kind, Date: time.Now().UTC().Format(time.DateOnly), Versions: map[string]string{Tools: "kafka-tools 4.3.1"},
		Cases: map[string]map[string]bool{}, Lacking: map[string]map[string]string{}, Matrix: map[string]map[string]int{},
	}
}

// Note records an outcome; a case that runs in several tests passes if all of them do.
func (r *Results) Note(number, client string, passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Cases[number] == nil {
		r.Cases[number] = map[string]bool{}
	}
	before, seen := r.Cases[number][client]
	r.Cases[number][client] = passed && (before || !seen)
}

// Without records that a case, or a part of it, is not run with a client, and what its library lacks.
func (r *Results) Without(number, client, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Lacking[number] == nil {
		r.Lacking[number] = map[string]string{}
	}
	switch before := r.Lacking[number][client]; {
	case before == "":
		r.Lacking[number][client] = why
	case !strings.Contains(before, why):
		r.Lacking[number][client] = before + ", " + why
	}
}

// Read counts a codec that a reader got whole from a writer.
func (r *Results) Read(writer, reader string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Matrix[writer] == nil {
		r.Matrix[writer] = map[string]int{}
	}
	r.Matrix[writer][reader]++
}

// directory is where the results are kept between runs.
func directory() string { return filepath.Join(peer.ModuleDir(), "clients", "results") }

// Save keeps the results as those of the peer. A run of some tests replaces the outcomes of their cases only.
func (r *Results) Save() error {
	kept, err := load(r.Peer)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		kept.take(r)
		r = kept
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(directory(), 0o755), os.WriteFile(filepath.Join(directory(), string(r.Peer)+".json"), append(b, '\n'), 0o644))
}

// take puts the outcomes of a later run in the place of those of an earlier one. Cases that are no more are dropped.
func (r *Results) take(later *Results) {
	r.Date, r.Versions = later.Date, later.Versions
	for number, outcomes := range later.Cases {
		r.Cases[number] = outcomes
		delete(r.Lacking, number)
	}
	maps.Copy(r.Lacking, later.Lacking)
	maps.Copy(r.Matrix, later.Matrix)
	maps.DeleteFunc(r.Cases, func(number string, _ map[string]bool) bool { return titles[number] == "" })
	maps.DeleteFunc(r.Lacking, func(number string, _ map[string]string) bool { return titles[number] == "" })
}

// Load returns the kept results of Felix and of Apache Kafka.
func Load() ([]*Results, error) {
	var all []*Results
	for _, kind := range []peer.Kind{peer.Felix, peer.Kafka} {
		one, err := load(kind)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func load(kind peer.Kind) (*Results, error) {
	b, err := os.ReadFile(filepath.Join(directory(), string(kind)+".json"))
	if err != nil {
		return nil, err
	}
	one := New(kind)
	return one, json.Unmarshal(b, one)
}
