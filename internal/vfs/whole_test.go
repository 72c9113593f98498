package vfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
)

// put makes a file without any sync.
func put(t *testing.T, fs FS, name, content string) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(content), 0)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fs FS, name string) string {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		t.Fatal(err)
	}
	return string(b)
}

func TestWholeSyncsEverything(t *testing.T) {
	m := NewMem()
	faulty := NewFault(m)
	if err := m.MkdirAll("a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := faulty.OpenWhole("a")
	if err != nil {
		t.Fatal(err)
	}
	put(t, faulty, "a/x", "one")
	put(t, faulty, "a/b/y", "two")
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		image := m.CrashImage(rand.New(rand.NewPCG(1, seed)))
		if x, y := content(t, image, "a/x"), content(t, image, "a/b/y"); x != "one" || y != "two" {
			t.Fatalf("%q and %q survive", x, y)
		}
	}
	put(t, faulty, "a/x", "ONE")
	faulty.Add(Rule{Match: func(op Op) bool { return op.Kind == OpSyncWhole }, Nth: 1, Err: syscall.EIO})
	if err := w.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	if err := w.Sync(); err != nil { // as a kernel: the pages count as clean
		t.Fatal(err)
	}
	if got := content(t, m.CrashImage(rand.New(rand.NewPCG(1, 1))), "a/x"); got != "one" {
		t.Errorf("%q survives a sync that failed", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWholeOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	w, err := OS{}.OpenWhole(dir)
	if errors.Is(err, ErrNotWhole) {
		t.Log("this machine has no such call")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	put(t, OS{}, dir+"/x", "one")
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Error(err)
	}
	if _, err := (OS{}).OpenWhole(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
