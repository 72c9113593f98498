package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/internal/ids"
)

// runOffline runs the felix command line and returns status, output and talk.
func runOffline(t *testing.T, args ...string) (status int, out, talk string) {
	t.Helper()
	var o, e strings.Builder
	status = Main(t.Context(), Process{Args: args, Out: &o, Err: &e})
	return status, o.String(), e.String()
}

// stoppedNode makes a data directory with one log of some batches, cleanly stopped, and returns it with the log's segment file.
func stoppedNode(t *testing.T) (dir, segment string) {
	t.Helper()
	dir = t.TempDir()
	n := openTest(t, dir)
	produce(t, newClient(t, n.Addrs().Kafka), "checked", 50)
	if err := n.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "shards", "*", "0", "*.log"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got segments %v, %v, want one", found, err)
	}
	return dir, found[0]
}

// files maps every file below dir to its content, to see that nothing was written.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		out[p] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOfflineVerdicts(t *testing.T) {
	tests := []struct {
		name    string
		damage  func(t *testing.T, segment string)
		inspect int
		verify  int
		verdict string
	}{
		{"clean", func(*testing.T, string) {}, exitOK, exitOK, "clean"},
		{"torn_tail", func(t *testing.T, segment string) {
			f, err := os.OpenFile(segment, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("half a batch")); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}, exitRepair, exitRepair, "would_repair"},
		{"flipped_bit", func(t *testing.T, segment string) {
			text, err := os.ReadFile(segment)
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)/2] ^= 1
			if err := os.WriteFile(segment, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}, exitRefuse, exitRefuse, "would_refuse"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, segment := stoppedNode(t)
			tt.damage(t, segment)
			before := files(t, dir)
			if status, out, talk := runOffline(t, "log", "inspect", dir, "--segments"); status != tt.inspect {
				t.Errorf("inspect: got %d, want %d\n%s%s", status, tt.inspect, out, talk)
			}
			status, out, talk := runOffline(t, "log", "verify", "--data-dir", dir, "-o", "json")
			if status != tt.verify {
				t.Errorf("verify: got %d, want %d\n%s%s", status, tt.verify, out, talk)
			}
			var report jsonReport
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatal(err)
			}
			if report.Verdict != tt.verdict || len(report.Logs) != 1 || report.Totals.Logs != 1 {
				t.Errorf("got %+v, want verdict %s of one log", report, tt.verdict)
			}
			if findings := report.Logs[0].Findings; (len(findings) > 0) != (tt.verify != exitOK) {
				t.Errorf("got findings %+v", findings)
			} else if len(findings) > 0 && (filepath.Base(findings[0].File) != filepath.Base(segment) || findings[0].Position <= 0) {
				t.Errorf("got %+v, want file %s and a position", findings[0], segment)
			}
			for path, text := range files(t, dir) {
				if before[path] != text {
					t.Errorf("%s was changed", path)
				}
			}
		})
	}
}

func TestOfflineMistakes(t *testing.T) {
	dir, segment := stoppedNode(t)
	topic := filepath.Base(filepath.Dir(filepath.Dir(segment)))
	if status, out, talk := runOffline(t, "log", "verify", dir, topic+"/0"); status != exitOK || !strings.Contains(out, "1 logs") {
		t.Errorf("one log: got %d %q %q", status, out, talk)
	}
	if status, out, _ := runOffline(t, "log", "verify", dir, topic+"/7"); status != exitOK || !strings.Contains(out, "0 logs") {
		t.Errorf("a partition that is not there: got %d %q", status, out)
	}
	if status, _, talk := runOffline(t, "log", "verify", dir, "orders"); status != exitUsage || !strings.Contains(talk, "TOPIC-ID") {
		t.Errorf("a name: got %d %q", status, talk)
	}
	if status, _, talk := runOffline(t, "log", "verify", filepath.Join(dir, "none")); status != exitFailure || !strings.Contains(talk, "data directory") {
		t.Errorf("no directory: got %d %q", status, talk)
	}
	if status, _, talk := runOffline(t, "log", "verify", dir, "-o", "xml"); status != exitUsage || !strings.Contains(talk, "xml") {
		t.Errorf("a bad form: got %d %q", status, talk)
	}
	// A wrong path must not read as clean, least of all one that happens to hold a directory of a common name.
	elsewhere := t.TempDir()
	if err := os.Mkdir(filepath.Join(elsewhere, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"inspect", "verify"} {
		if status, out, talk := runOffline(t, "log", command, elsewhere); status != exitFailure || out != "" || !strings.Contains(talk, "no Felix data directory here") {
			t.Errorf("%s elsewhere: got %d %q %q", command, status, out, talk)
		}
	}
	id, err := ids.ParseTopicID(topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{id.Base64(), id.Base64() + "==", id.Base64() + "/0"} {
		if status, out, talk := runOffline(t, "log", "verify", dir, form); status != exitOK || !strings.Contains(out, "1 logs") {
			t.Errorf("id %s: got %d %q %q", form, status, out, talk)
		}
	}
	openTest(t, dir)
	if status, _, talk := runOffline(t, "log", "verify", dir); status != exitFailure || !strings.HasSuffix(talk, "stop the node first\n") {
		t.Errorf("a running node: got %d %q", status, talk)
	}
}

// TestVerifyDamageThatAStartServes spoils a sealed segment: a start does not read it and opens the log, so the verdict is not its.
func TestVerifyDamageThatAStartServes(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir, "FELIX_DURABLE_SEGMENT_BYTES=1MiB")
	c := newClient(t, n.Addrs().Kafka, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 8 {
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "sealed", Value: make([]byte, 300<<10)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "shards", "*", "0", "*.log"))
	if err != nil || len(found) < 2 {
		t.Fatalf("got segments %v, %v, want two", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(found[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, talk := runOffline(t, "log", "inspect", dir); status != exitOK {
		t.Errorf("inspect: got %d\n%s%s", status, out, talk)
	}
	status, out, talk := runOffline(t, "log", "verify", dir, "--segments")
	if status != exitRefuse || !strings.Contains(out, "damaged: "+found[0]+" at ") || !strings.Contains(out, "1 bad place") || !strings.Contains(out, "1 damaged, 0 would be refused") {
		t.Errorf("verify: got %d\n%s%s", status, out, talk)
	}
	_, out, _ = runOffline(t, "log", "verify", dir, "-o", "json")
	var report jsonReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if l := report.Logs[0]; report.Verdict != "damaged" || l.End != 8 || len(l.Segments) != len(found) || l.Bytes == 0 || len(l.Findings) != 1 || l.Findings[0].Places != 1 {
		t.Errorf("got %+v", report)
	}
}
