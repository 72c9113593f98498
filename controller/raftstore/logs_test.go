package raftstore

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/internal/cluster"
)

func server(id string) raft.Server {
	return raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)}
}

func openLogs(t *testing.T, dir string) *logs {
	t.Helper()
	db, err := openDB(filepath.Join(dir, dbName), false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLogs(db, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func term(t *testing.T, l *logs, key string) uint64 {
	t.Helper()
	v, err := l.GetUint64([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestLoneTermAndVote holds what the package comment promises: held back while alone, implied by the last entry after a crash, durable
// before a second member can exist.
func TestLoneTermAndVote(t *testing.T) {
	dir := t.TempDir()
	if err := createFiles(dir, server("a"), nil); err != nil {
		t.Fatal(err)
	}
	l := openLogs(t, dir)
	if !l.lone {
		t.Fatal("a log with one server is not taken for a lone member's")
	}
	set := func(l *logs, key string, v uint64) {
		t.Helper()
		if err := l.SetUint64([]byte(key), v); err != nil {
			t.Fatal(err)
		}
	}
	set(l, keyCurrentTerm, 5)
	set(l, keyLastVoteTerm, 5)
	if err := l.Set([]byte(keyLastVoteCand), []byte("a")); err != nil {
		t.Fatal(err)
	}
	if got := term(t, l, keyCurrentTerm); got != 5 {
		t.Errorf("current term %d, want 5", got)
	}
	if err := l.StoreLog(&raft.Log{Index: 2, Term: 5, Type: raft.LogNoop}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil { // a crash: what was held back is gone
		t.Fatal(err)
	}
	l = openLogs(t, dir)
	if got := term(t, l, keyCurrentTerm); got != 5 {
		t.Errorf("current term after a crash %d, want that of the last entry, 5", got)
	}
	if got := term(t, l, keyLastVoteTerm); got != 0 {
		t.Errorf("vote term after a crash %d: it was to be held back", got)
	}
	set(l, keyCurrentTerm, 6)
	set(l, keyLastVoteTerm, 6)
	two := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{server("a"), server("b")}})
	if err := l.StoreLog(&raft.Log{Index: 3, Term: 6, Type: raft.LogConfiguration, Data: two}); err != nil {
		t.Fatal(err)
	}
	set(l, keyCurrentTerm, 7)
	set(l, keyLastVoteTerm, 7)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLogs(t, dir)
	if got, vote := term(t, l, keyCurrentTerm), term(t, l, keyLastVoteTerm); got != 7 || vote != 7 {
		t.Errorf("with two members, term %d and vote %d after a crash, want 7 and 7", got, vote)
	}
}

// TestFailedWriteLatches takes the database away below a running store, as a failed disk would: this and every later proposal fails, the
// store says why, and what was acknowledged before is there at the next start.
func TestFailedWriteLatches(t *testing.T) {
	dir := t.TempDir()
	c, st := openBoth(t, dir)
	register(t, c, true)
	createTopics(t, c, newTopics(1, 1))
	if err := st.logs.db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Propose(t.Context(), newTopics(1, 1)); !errors.Is(err, controller.ErrStopped) {
			t.Errorf("propose without a disk: %v, want ErrStopped", err)
		}
	}
	_ = c.Close() // the database is closed already
	c = open(t, dir)
	defer func() { _ = c.Close() }()
	if c.Image().Topic("default", "default", "topic-00000") == nil {
		t.Error("the acknowledged topic is gone")
	}
}

func openBoth(t *testing.T, dir string) (*controller.Controller, *Store) {
	t.Helper()
	var st *Store
	opener := Opener(Options{Dir: dir, Node: "n1"})
	c, err := controller.Open(t.Context(), controller.Options{Store: func(ctx context.Context, m controller.Machine, first [][]byte) (controller.Store, error) {
		s, err := opener(ctx, m, first)
		if err == nil {
			st = s.(*Store)
		}
		return s, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, st
}

func TestDirectoryOfAnotherNode(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := controller.Open(t.Context(), controller.Options{Store: Opener(Options{Dir: dir, Node: "n2"})}); err == nil {
		_ = c.Close()
		t.Error("another node opens the directory")
	}
}

func TestWithheldVotes(t *testing.T) {
	_, inner := raft.NewInmemTransport("a")
	tr := newTransport(inner)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tr.forward()
	}()
	_, peer := raft.NewInmemTransport("b")
	peer.Connect("a", inner)
	tr.withhold.Store(true)
	var resp raft.RequestVoteResponse
	if err := peer.RequestVote("a", "a", &raft.RequestVoteRequest{}, &resp); err == nil || resp.Granted {
		t.Errorf("a withheld vote answers %v, granted %t", err, resp.Granted)
	}
	tr.withhold.Store(false)
	go func() {
		rpc := <-tr.Consumer()
		rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
	}()
	if err := peer.RequestVote("a", "a", &raft.RequestVoteRequest{}, &resp); err != nil || !resp.Granted {
		t.Errorf("a vote that is not withheld answers %v, granted %t", err, resp.Granted)
	}
	if err := tr.close(); err != nil {
		t.Error(err)
	}
	<-done
}

func TestMetadataSurvivesManySnapshots(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		c := open(t, dir)
		node := register(t, c, false)
		if want := uint64(round + 1); node.Incarnation != want || node.Broker != cluster.FirstBroker {
			t.Errorf("round %d: %+v", round, node)
		}
		for range 60 { // above closeSnapshotEntries
			if _, err := c.Propose(t.Context(), cluster.AllocateProducerIDs{Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.Image().NextProducerID(); got != int64(60*(round+1)) {
			t.Errorf("round %d: next producer id %d", round, got)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
