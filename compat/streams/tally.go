package streams

import (
	"fmt"
	"maps"
	"slices"
)

// tally holds what was written and what was counted, by word.
type tally struct {
	written map[string]int64
	counted map[string]int64
	again   map[string]int64 // counted beyond what was written, when last judged
	recent  map[string]bool  // written since then
	updates int64            // counts read, all of them
}

func newTally() *tally {
	return &tally{written: map[string]int64{}, counted: map[string]int64{}, again: map[string]int64{}, recent: map[string]bool{}}
}

// wrote notes words that are in the log.
func (t *tally) wrote(words []string) {
	for _, w := range words {
		t.written[w]++
		t.recent[w] = true
	}
}

// count notes a word's new count.
func (t *tally) count(word string, n int64) {
	t.counted[word] = n
	t.updates++
}

// judge compares at a settled moment, and tells what may not be: exact forbids all that is counted again since the last judgement.
func (t *tally) judge(exact bool) []string {
	var problems []string
	words := slices.Sorted(maps.Keys(t.counted))
	for w := range t.written {
		if _, ok := t.counted[w]; !ok {
			words = append(words, w)
		}
	}
	for _, w := range words {
		again := t.counted[w] - t.written[w]
		switch {
		case again < 0:
			problems = append(problems, fmt.Sprintf("%s: counted %d, written %d", w, t.counted[w], t.written[w]))
		case again < t.again[w]:
			problems = append(problems, fmt.Sprintf("%s: counted %d times too often before and %d now: counts were lost", w, t.again[w], again))
		case again > t.again[w] && exact:
			problems = append(problems, fmt.Sprintf("%s: counted %d, written %d, although nothing was killed", w, t.counted[w], t.written[w]))
		case again > t.again[w] && !t.recent[w]:
			problems = append(problems, fmt.Sprintf("%s: counted %d more times after its count was committed", w, again-t.again[w]))
		}
		t.again[w] = again
	}
	clear(t.recent)
	return problems
}

// totals are all words written, and all that was counted again.
func (t *tally) totals() (written, again int64) {
	for _, n := range t.written {
		written += n
	}
	for _, n := range t.again {
		again += n
	}
	return written, again
}
