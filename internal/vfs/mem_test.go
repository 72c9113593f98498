package vfs_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/vfs"
)

// tree returns the content of every file below the root, and "dir" for directories.
func tree(t *testing.T, fsys vfs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		list, err := fsys.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			name := dir + e.Name
			if e.IsDir {
				out[name] = "dir"
				walk(name + "/")
			} else {
				out[name] = contentOf(t, fsys, name)
			}
		}
	}
	walk("/")
	return out
}

// images collects the distinct trees of many crash images.
func images(t *testing.T, m *vfs.Mem, n int) []map[string]string {
	t.Helper()
	var out []map[string]string
	for seed := range uint64(n) {
		got := tree(t, m.CrashImage(rand.New(rand.NewPCG(seed, 0))))
		if !slices.ContainsFunc(out, func(have map[string]string) bool { return cmp.Equal(have, got) }) {
			out = append(out, got)
		}
	}
	return out
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := vfs.NewMem()
	if err := m.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, m, "d/f", os.O_RDWR|os.O_CREATE)
	mustWrite(t, f, 0, "synced")
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}

	// The name is not durable: neither directory was synced.
	var lost, found bool
	for _, got := range images(t, m, 200) {
		content, ok := got["/d/f"]
		lost, found = lost || !ok, found || ok
		if ok && content != "synced" {
			t.Errorf("a file that survived holds %q", content)
		}
	}
	if !lost || !found {
		t.Errorf("of an unsynced name, lost %t and found %t; want both", lost, found)
	}

	for _, dir := range []string{"d", "/"} {
		if err := m.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	want := []map[string]string{{"/d": "dir", "/d/f": "synced"}}
	if diff := cmp.Diff(want, images(t, m, 50)); diff != "" {
		t.Error(diff)
	}
}

func TestCrashTearsUnsyncedWrites(t *testing.T) {
	m := vfs.NewMem()
	f := mustOpen(t, m, "f", os.O_RDWR|os.O_CREATE)
	mustWrite(t, f, 0, strings.Repeat("a", 1024))
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	// Three sectors: two over the old ones, beginning in the middle of the first, and one beyond the old end.
	mustWrite(t, f, 256, strings.Repeat("b", 1280))
	a, b, zero := strings.Repeat("a", 256), strings.Repeat("b", 256), strings.Repeat("\x00", 256)
	seen := map[string]bool{}
	for _, got := range images(t, m, 500) {
		seen[got["/f"]] = true
	}
	for _, want := range []string{
		a + a + a + a,               // nothing
		a + b + b + b + b + b,       // everything
		a + b + a + a,               // a prefix
		a + a + b + b,               // the middle alone
		a + a + a + a + zero + zero, // the size alone
		a + a + a + a + b + b,       // the end alone
		a + b + b + b + zero + zero, // all but the end
		a + a + b + b + zero + zero, //
		a + b + a + a + b + b,       //
		a + b + b + b,               //
		a + b + a + a + zero + zero, //
		a + a + b + b + b + b,       //
	} {
		if !seen[want] {
			t.Errorf("never seen: %q", shorten(want))
		}
		delete(seen, want)
	}
	for got := range seen {
		t.Errorf("impossible: %q", shorten(got))
	}
}

// shorten prints a byte for each 256.
func shorten(s string) string {
	var out []byte
	for i := 0; i < len(s); i += 256 {
		out = append(out, s[i])
	}
	return string(out)
}

func TestCrashTruncation(t *testing.T) {
	m := vfs.NewMem()
	f := mustOpen(t, m, "f", os.O_RDWR|os.O_CREATE)
	mustWrite(t, f, 0, "0123456789")
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(4); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, got := range images(t, m, 50) {
		seen[got["/f"]] = true
	}
	if diff := cmp.Diff(map[string]bool{"0123456789": true, "0123": true}, seen); diff != "" {
		t.Error(diff)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string]string{{"/f": "0123"}}, images(t, m, 50)); diff != "" {
		t.Error(diff)
	}
}

func TestCrashRename(t *testing.T) {
	m := vfs.NewMem()
	for _, name := range []string{"old", "new"} {
		f := mustOpen(t, m, name, os.O_RDWR|os.O_CREATE)
		mustWrite(t, f, 0, name)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if err := m.Rename("old", "new"); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{"/old": "old", "/new": "new"}
	after := map[string]string{"/new": "old"}
	got := images(t, m, 100)
	if len(got) != 2 {
		t.Errorf("a rename is one step, got %v", got)
	}
	for _, g := range got {
		if !cmp.Equal(g, before) && !cmp.Equal(g, after) {
			t.Errorf("impossible: %v", g)
		}
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string]string{after}, images(t, m, 50)); diff != "" {
		t.Error(diff)
	}
}

func TestCrashRenameAcrossDirectories(t *testing.T) {
	m := vfs.NewMem()
	for _, dir := range []string{"a", "b"} {
		if err := m.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, m, "a/f", os.O_RDWR|os.O_CREATE)
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if err := m.Rename("a/f", "b/f"); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, m, "a/g", os.O_RDWR|os.O_CREATE)
	// The sync of the target takes the creation in the other directory along, but nothing later.
	if err := m.SyncDir("b"); err != nil {
		t.Fatal(err)
	}
	for _, got := range images(t, m, 100) {
		delete(got, "/a/g")
		if diff := cmp.Diff(map[string]string{"/a": "dir", "/b": "dir", "/b/f": ""}, got); diff != "" {
			t.Error(diff)
		}
	}
	if n := len(images(t, m, 100)); n != 2 {
		t.Errorf("%d images, want with and without a/g", n)
	}
}

func TestCrashRemove(t *testing.T) {
	m := vfs.NewMem()
	if err := m.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, m, "d/f", os.O_RDWR|os.O_CREATE)
	for _, dir := range []string{"d", "/"} {
		if err := m.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.RemoveAll("d"); err != nil {
		t.Fatal(err)
	}
	whole := map[string]string{"/d": "dir", "/d/f": ""}
	empty := map[string]string{"/d": "dir"}
	gone := map[string]string{}
	got := images(t, m, 200)
	for _, want := range []map[string]string{whole, empty, gone} {
		if !slices.ContainsFunc(got, func(g map[string]string) bool { return cmp.Equal(g, want) }) {
			t.Errorf("never seen: %v", want)
		}
	}
	if len(got) != 3 {
		t.Errorf("images: %v", got)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string]string{gone}, images(t, m, 50)); diff != "" {
		t.Error(diff)
	}
}

func TestCrashImageIsDeterministic(t *testing.T) {
	m := vfs.NewMem()
	for _, name := range []string{"a", "b", "c"} {
		f := mustOpen(t, m, name, os.O_RDWR|os.O_CREATE)
		mustWrite(t, f, 0, strings.Repeat(name, 5000))
	}
	for seed := range uint64(20) {
		one := tree(t, m.CrashImage(rand.New(rand.NewPCG(seed, 0))))
		two := tree(t, m.CrashImage(rand.New(rand.NewPCG(seed, 0))))
		if diff := cmp.Diff(one, two); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
}

func TestImagesAreSeparate(t *testing.T) {
	m := vfs.NewMem()
	f := mustOpen(t, m, "f", os.O_RDWR|os.O_CREATE)
	mustWrite(t, f, 0, "before")
	killed := m.ProcessKillImage()
	mustWrite(t, f, 0, "after!")
	g := mustOpen(t, killed, "f", os.O_RDWR)
	if got := content(t, g); got != "before" {
		t.Errorf("the image holds %q", got)
	}
	mustWrite(t, g, 0, "image!")
	if got := content(t, f); got != "after!" {
		t.Errorf("writing to the image changed the original to %q", got)
	}
}

func TestProcessKillKeepsAllButSyncsNothing(t *testing.T) {
	m := vfs.NewMem()
	f := mustOpen(t, m, "f", os.O_RDWR|os.O_CREATE)
	mustWrite(t, f, 0, "page cache")
	killed := m.ProcessKillImage()
	if diff := cmp.Diff(map[string]string{"/f": "page cache"}, tree(t, killed)); diff != "" {
		t.Error(diff)
	}
	var lost bool
	for _, got := range images(t, killed, 100) {
		_, ok := got["/f"]
		lost = lost || !ok
	}
	if !lost {
		t.Error("a power loss after the kill must be able to lose the file")
	}
}

func TestHookSeesEveryChange(t *testing.T) {
	m := vfs.NewMem()
	var got []string
	m.SetHook(func(op vfs.Op) {
		if !op.Kind.Mutates() {
			t.Errorf("hook after %v", op)
		}
		m.CrashImage(rand.New(rand.NewPCG(1, 1))) // the lock is free
		got = append(got, op.Kind.String()+" "+op.Path)
	})
	if err := m.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, m, "d/f", os.O_RDWR|os.O_CREATE)
	mustWrite(t, f, 0, "x")
	mustOpen(t, m, "d/f", os.O_RDWR) // changes nothing
	content(t, f)
	if _, err := m.OpenFile("nothing", os.O_RDWR, 0); err == nil {
		t.Fatal("opened nothing")
	}
	for _, err := range []error{
		f.Truncate(0), f.Sync(), f.Datasync(), m.Rename("d/f", "d/g"), m.SyncDir("d"), m.Remove("d/g"), m.RemoveAll("d"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m.SetHook(nil)
	if err := m.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mkdir all d", "open d/f", "write d/f", "truncate d/f", "sync d/f", "datasync d/f", "rename d/f", "sync dir d",
		"remove d/g", "remove all d",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
