package raftstore

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/internal/cluster"
)

// TestFilesArePrivate: nobody but the owner reads the store's files, whatever the process's umask, snapshots of an older release included.
func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	open := func() *controller.Controller {
		c, err := controller.Open(t.Context(), controller.Options{Store: Opener(Options{Dir: dir, Node: "n1", SnapshotEntries: 5, SnapshotInterval: 5 * time.Millisecond})})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	check := func() (snapshots int) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil // a snapshot that went
			}
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			if err == nil && e.Name() == "state.bin" {
				snapshots++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return snapshots
	}
	c := open()
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err := c.Propose(t.Context(), cluster.AllocateProducerIDs{Count: 1}); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, snapshotsName)); err == nil && len(left) > 0 && filepath.Ext(left[0].Name()) == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no snapshot is made")
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if check() == 0 {
		t.Error("there is no snapshot")
	}
	// As an older release left them.
	err := filepath.WalkDir(filepath.Join(dir, snapshotsName), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if e.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
	c = open()
	check()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
