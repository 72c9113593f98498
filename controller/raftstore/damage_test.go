package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/internal/cluster"
)

// TestDamagedLogIsNoticed changes one bit of the closed database at a time. After a clean stop every change is refused, with an error that
// names the file. Without the seal of a clean stop, as after a crash, the store opens or refuses, but it never panics and it never applies
// a changed command; what it cannot notice then is a page that hides its last entries.
func TestDamagedLogIsNoticed(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	register(t, c, true)
	createTopics(t, c, newTopics(20, 2))
	for range 10 {
		if _, err := c.Propose(t.Context(), cluster.AllocateProducerIDs{Count: 5}); err != nil {
			t.Fatal(err)
		}
	}
	topics := c.Image().SortedTopics()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, dbName))
	if err != nil {
		t.Fatal(err)
	}
	seal, err := os.ReadFile(filepath.Join(dir, sealName))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	noticed := 0
	for range 200 {
		at := rng.IntN(len(good))
		for good[at] == 0 && rng.IntN(20) > 0 { // most of the file is padding
			at = rng.IntN(len(good))
		}
		bad := bytes.Clone(good)
		bad[at] ^= 1 << rng.IntN(8)
		image := t.TempDir()
		if err := os.WriteFile(filepath.Join(image, dbName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(image, sealName), seal, 0o600); err != nil {
			t.Fatal(err)
		}
		opts := controller.Options{Store: Opener(Options{Dir: image, Node: "n1"})}
		if c, err := controller.Open(t.Context(), opts); err == nil {
			t.Errorf("byte %d changed after a clean stop: not noticed", at)
			_ = c.Close()
		}
		if err := os.Remove(filepath.Join(image, sealName)); err != nil { // a refusal leaves it
			t.Fatal(err)
		}
		c, err := controller.Open(t.Context(), opts)
		if err != nil {
			noticed++
			continue
		}
		for i, got := range c.Image().SortedTopics() {
			if len(c.Image().SortedTopics()) != len(topics) || got.ID != topics[i].ID || got.Name != topics[i].Name || len(got.Partitions) != 2 {
				t.Errorf("byte %d changed: the store opens with topic %+v, was %+v", at, got, topics[i])
			}
		}
		_ = c.Close()
	}
	if noticed == 0 {
		t.Error("no change was noticed without the seal: the test shows nothing")
	}
}

// TestSealIsGoneWhileOpen starts and kills a store after a clean stop: the old seal must not refuse what was written since.
func TestSealIsGoneWhileOpen(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	register(t, c, true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir)
	createTopics(t, c, newTopics(1, 1))
	image := t.TempDir()
	// The database is quiet now, so this is what a kill would leave.
	if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(image, sealName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an open store has a seal: %v", err)
	}
	c = open(t, image)
	defer func() { _ = c.Close() }()
	if c.Image().TopicCount() != 1 {
		t.Error("the topic is gone")
	}
	for _, torn := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte{7}, sealBytes)} {
		if err := os.WriteFile(filepath.Join(dir, sealName), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := breakSeal(dir); err != nil {
			t.Errorf("a torn seal of %d bytes refuses: %v", len(torn), err)
		}
	}
}

func TestEntryChecksum(t *testing.T) {
	dir := t.TempDir()
	if err := createFiles(dir, server("a"), [][]byte{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	db, err := openDB(filepath.Join(dir, dbName), true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var e raft.Log
	if err := readEntry(db, 2, &e); err != nil || string(e.Data) != "x" || e.Extensions != nil {
		t.Errorf("entry 2: %+v, %v", e, err)
	}
	for i, bad := range []raft.Log{
		{Index: 3, Term: 1, Type: raft.LogCommand, Data: []byte("y")},                             // none
		{Index: 3, Term: 1, Type: raft.LogNoop, Data: []byte("y"), Extensions: checksum(&e)},      // another's
		{Index: 3, Term: 1, Type: raft.LogBarrier, Data: []byte("y"), Extensions: []byte("1234")}, // nonsense
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if err := db.StoreLog(&bad); err != nil {
				t.Fatal(err)
			}
			if err := readEntry(db, 3, &e); err == nil {
				t.Error("accepted")
			}
			if _, _, err := verify(db); err == nil {
				t.Error("verified")
			}
		})
	}
}
