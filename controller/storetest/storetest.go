package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/felixlog/felix/controller"
)

// Open opens the store in dir, or makes it there, as controller.OpenStore does.
type Open func(ctx context.Context, dir string, m controller.Machine, first [][]byte) (controller.Store, error)

// Run runs the suite. many is a number of commands after which the store has taken a snapshot by itself, or at its Close.
func Run(t *testing.T, many int, open Open) {
	s := suite{open: open, many: many}
	t.Run("first_commands", s.firstCommands)
	t.Run("results_and_order", s.resultsAndOrder)
	t.Run("reopen", s.reopen)
	t.Run("snapshot", s.snapshot)
	t.Run("machine_error_stops", s.machineErrorStops)
	t.Run("close", s.close)
	t.Run("context", s.context)
}

type suite struct {
	open Open
	many int
}

// Journal is a Machine that remembers every command. Apply returns the number of commands before it.
type Journal struct {
	mu        sync.Mutex
	positions []uint64
	commands  []string
	broken    error // returned by Apply from now on
	restored  int
}

// Apply notes the command.
func (j *Journal) Apply(position uint64, command []byte) (any, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return nil, j.broken
	}
	j.positions = append(j.positions, position)
	j.commands = append(j.commands, string(command))
	return len(j.commands) - 1, nil
}

// Snapshot freezes what was noted.
func (j *Journal) Snapshot() func(io.Writer) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	commands, positions := slices.Clone(j.commands), slices.Clone(j.positions)
	return func(w io.Writer) error {
		var b []byte
		for i, c := range commands {
			b = binary.AppendUvarint(b, positions[i])
			b = binary.AppendUvarint(b, uint64(len(c)))
			b = append(b, c...)
		}
		_, err := w.Write(b)
		return err
	}
}

// Restore replaces what was noted.
func (j *Journal) Restore(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commands, j.positions = nil, nil
	j.restored++
	for len(b) > 0 {
		position, n := binary.Uvarint(b)
		size, m := binary.Uvarint(b[n:])
		b = b[n+m:]
		j.positions = append(j.positions, position)
		j.commands = append(j.commands, string(b[:size]))
		b = b[size:]
	}
	return nil
}

// Commands returns what was applied, in order.
func (j *Journal) Commands() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.commands)
}

func (j *Journal) check(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := 1; i < len(j.positions); i++ {
		if j.positions[i] <= j.positions[i-1] {
			t.Errorf("position %d comes after %d", j.positions[i], j.positions[i-1])
		}
	}
}

func (s suite) start(t *testing.T, dir string, first ...string) (*Journal, controller.Store) {
	t.Helper()
	j := &Journal{}
	var commands [][]byte
	for _, c := range first {
		commands = append(commands, []byte(c))
	}
	st, err := s.open(t.Context(), dir, j, commands)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return j, st
}

func propose(t *testing.T, st controller.Store, command string) int {
	t.Helper()
	res, err := st.Propose(t.Context(), []byte(command))
	if err != nil {
		t.Fatalf("propose %q: %v", command, err)
	}
	return res.(int)
}

func (s suite) firstCommands(t *testing.T) {
	dir := t.TempDir()
	j, st := s.start(t, dir, "a", "b")
	if got, want := j.Commands(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("a new store has %v, want %v", got, want)
	}
	mustClose(t, st)
	j, _ = s.start(t, dir, "c")
	if got, want := j.Commands(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("reopened, the store has %v, want %v: first commands are for new stores only", got, want)
	}
	j.check(t)
}

func (s suite) resultsAndOrder(t *testing.T) {
	dir := t.TempDir()
	j, st := s.start(t, dir)
	const writers, each = 8, 20
	var wg sync.WaitGroup
	index := make([][]int, writers)
	for w := range writers {
		index[w] = make([]int, each)
		wg.Go(func() {
			for i := range each {
				res, err := st.Propose(t.Context(), fmt.Appendf(nil, "%d/%d", w, i))
				if err != nil {
					t.Errorf("propose: %v", err)
					return
				}
				index[w][i] = res.(int)
			}
		})
	}
	wg.Wait()
	got := j.Commands()
	for w := range writers {
		for i, at := range index[w] {
			if want := fmt.Sprintf("%d/%d", w, i); at >= len(got) || got[at] != want {
				t.Errorf("the result of %s says it is number %d, which it is not", want, at)
			}
		}
		if !slices.IsSorted(index[w]) {
			t.Errorf("writer %d's commands, proposed one after the other, are out of order", w)
		}
	}
	if len(got) != writers*each {
		t.Errorf("%d commands applied, want %d", len(got), writers*each)
	}
	j.check(t)
}

func (s suite) reopen(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for round := range 4 {
		j, st := s.start(t, dir)
		if got := j.Commands(); !slices.Equal(got, want) {
			t.Fatalf("round %d: the store has %v, want %v", round, got, want)
		}
		for i := range 5 {
			c := fmt.Sprintf("%d.%d", round, i)
			if at := propose(t, st, c); at != len(want) {
				t.Fatalf("command %s is number %d, want %d", c, at, len(want))
			}
			want = append(want, c)
		}
		j.check(t)
		mustClose(t, st)
	}
}

func (s suite) snapshot(t *testing.T) {
	dir := t.TempDir()
	_, st := s.start(t, dir)
	var want []string
	for i := range s.many {
		want = append(want, fmt.Sprint(i))
		propose(t, st, fmt.Sprint(i))
	}
	mustClose(t, st)
	j, st := s.start(t, dir)
	if j.restored == 0 {
		t.Errorf("%d commands and a stop made no snapshot", s.many)
	}
	if got := j.Commands(); !slices.Equal(got, want) {
		t.Errorf("after a snapshot the store has %d commands, want %d in order", len(got), len(want))
	}
	if at := propose(t, st, "next"); at != s.many {
		t.Errorf("the command after the snapshot is number %d, want %d", at, s.many)
	}
	j.check(t)
}

func (s suite) machineErrorStops(t *testing.T) {
	dir := t.TempDir()
	j, st := s.start(t, dir)
	propose(t, st, "good")
	if err := st.Ready(); err != nil {
		t.Errorf("ready: %v", err)
	}
	j.mu.Lock()
	j.broken = errors.New("cannot apply this")
	j.mu.Unlock()
	for range 2 {
		if _, err := st.Propose(t.Context(), []byte("bad")); !errors.Is(err, controller.ErrStopped) {
			t.Errorf("a command that the machine refuses: %v, want ErrStopped", err)
		}
	}
	if err := st.Ready(); !errors.Is(err, controller.ErrStopped) {
		t.Errorf("ready after a failure: %v, want ErrStopped", err)
	}
	if got := j.Commands(); !slices.Equal(got, []string{"good"}) {
		t.Errorf("applied %v, want only the good one", got)
	}
	if err := st.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	broken := &Journal{broken: errors.New("still cannot")}
	if st, err := s.open(t.Context(), dir, broken, nil); !errors.Is(err, controller.ErrStopped) {
		t.Errorf("open with a machine that cannot apply the log: %v, want ErrStopped", err)
		if err == nil {
			mustClose(t, st)
		}
	}
}

func (s suite) close(t *testing.T) {
	_, st := s.start(t, t.TempDir())
	propose(t, st, "a")
	mustClose(t, st)
	mustClose(t, st)
	if _, err := st.Propose(t.Context(), []byte("b")); !errors.Is(err, controller.ErrClosed) {
		t.Errorf("propose after close: %v, want ErrClosed", err)
	}
	if err := st.Ready(); !errors.Is(err, controller.ErrClosed) {
		t.Errorf("ready after close: %v, want ErrClosed", err)
	}
}

func (s suite) context(t *testing.T) {
	j, st := s.start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The command may have made it before the wait was given up.
	if _, err := st.Propose(ctx, []byte("maybe")); err != nil && !errors.Is(err, controller.ErrUnknownOutcome) {
		t.Errorf("propose with an ended context: %v, want ErrUnknownOutcome", err)
	}
	propose(t, st, "after")
	// It may also come later: that its outcome is unknown means just that.
	if got := j.Commands(); len(got) > 2 || !slices.Contains(got, "after") {
		t.Errorf("applied %v", got)
	}
}

func mustClose(t *testing.T, st controller.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}
