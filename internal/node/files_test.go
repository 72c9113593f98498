package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLockDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	first, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Fatalf("got %v for a directory in use, want a refusal that names the process", err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	second, err := lockDir(dir)
	if err != nil {
		t.Fatalf("a released directory does not open: %v", err)
	}
	if err := second.release(); err != nil {
		t.Fatal(err)
	}
}

func TestLockDirNotADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(file); err == nil {
		t.Error("a file was taken as data directory")
	}
}

func TestReadyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ready.json")
	want := Addresses{Kafka: "127.0.0.1:1", Metrics: "127.0.0.1:2"}
	for range 2 { // the second replaces the first
		if err := writeReady(path, want); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got Addresses
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the ready file alone", entries, err)
	}
	if err := writeReady(filepath.Join(dir, "none", "ready.json"), want); err == nil {
		t.Error("a ready file in a missing directory was written")
	}
}

func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	if fresh, err := checkIdentity(dir, "a"); err != nil || !fresh {
		t.Fatalf("got %v, %v for an empty directory, want fresh", fresh, err)
	}
	if err := claimDir(dir, "a"); err != nil {
		t.Fatal(err)
	}
	if fresh, err := checkIdentity(dir, "a"); err != nil || fresh {
		t.Fatalf("got %v, %v for a claimed directory", fresh, err)
	}
	if _, err := checkIdentity(dir, "b"); err == nil || !strings.Contains(err.Error(), `belongs to node "a"`) {
		t.Errorf("got %v, want a refusal that names the owner", err)
	}
	for _, text := range []string{`{"version":2,"node_id":"a"}`, `{`, ``} {
		if err := os.WriteFile(identityPath(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := checkIdentity(dir, "a"); err == nil || !strings.Contains(err.Error(), "node.json") {
			t.Errorf("%q: got %v, want a refusal that names the file", text, err)
		}
	}
}

func TestHasEntries(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]bool{"missing": false, "empty": false, "full": true} {
		path := filepath.Join(dir, name)
		if name != "missing" {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if name == "full" {
			if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := hasEntries(path); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
	}
}
