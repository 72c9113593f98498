package disk

import (
	"os"
	"path/filepath"
	"testing"
)

func TestListReadEvictProbe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "small"), make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	files, total, err := List(dir, 1<<10)
	if err != nil || len(files) != 1 || total != 3<<20 {
		t.Fatalf("got %v, %d bytes, error %v", files, total, err)
	}
	if _, err := Evict(files); err != nil {
		t.Fatal(err)
	}
	if n, _, err := Read(files); err != nil || n != 3<<20 {
		t.Fatalf("read %d bytes, error %v", n, err)
	}
	p, err := ProbeSync(dir, 1024, 5)
	if err != nil || p.Append.Count() != 5 || p.Overwrite.Count() != 5 {
		t.Fatalf("probe %+v, error %v", p, err)
	}
	if Used(dir) < 3<<20 {
		t.Errorf("used %d bytes", Used(dir))
	}
}
