package log

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata/scripts")

// TestScripts runs every script of testdata/scripts: a line is a step in the life of a log, the indented lines below it what came of
// it. Lines that begin with # are comments.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(raw), got); diff != "" {
				t.Errorf("script output differs (-want +got):\n%s", diff)
			}
		})
	}
}

// scripted is a log under a script.
type scripted struct {
	t      *testing.T
	mem    *vfs.Mem
	disk   *vfs.Fault
	mode   SyncMode
	config Config
	now    time.Time
	repair bool
	e      *env
	l      *Log
	out    strings.Builder
}

func runScript(t *testing.T, text string) string {
	t.Helper()
	s := &scripted{t: t, mem: vfs.NewMem(), mode: SyncPeriodic, now: time.UnixMilli(1_000_000)}
	s.config = Config{SegmentBytes: 1000, RetentionBytes: -1, RetentionAge: -1, Delete: true, IndexIntervalBytes: 200}
	s.disk = vfs.NewFault(s.mem)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue // output of an earlier run
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		args := map[string]string{}
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			args[k] = v
		}
		s.step(words[0], args)
	}
	return s.out.String()
}

func (s *scripted) say(format string, args ...any) { fmt.Fprintf(&s.out, "    "+format+"\n", args...) }

// fail says what an error is: its kind, and the part of it that a person would look at.
func (s *scripted) fail(err error) bool {
	if err == nil {
		return false
	}
	var d *DamageError
	var r *errcode.RangeError
	switch {
	case errors.As(err, &d):
		s.say("error %v: %s at byte %d: %s", errcode.Of(err), path.Base(d.File), d.Position, d.Reason)
	case errors.As(err, &r):
		s.say("error %v: %d is not in [%d, %d]", errcode.Of(err), r.Requested, r.Start, r.End)
	default:
		s.say("error %v", errcode.Of(err))
	}
	return true
}

func num(args map[string]string, name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(args[name], 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

func span(args map[string]string, name string) time.Duration {
	d, err := time.ParseDuration(args[name])
	if err != nil {
		return -1
	}
	return d
}

func (s *scripted) step(verb string, args map[string]string) {
	switch verb {
	case "config": // segment= retention-bytes= retention-age= compact= mode= repair=
		s.configure(args)
	case "open":
		s.open()
	case "append": // n= records= size= epoch= ts= pid= pepoch= seq= key=
		s.append(args)
	case "sync":
		end, err := s.l.SyncNow()
		if !s.fail(err) {
			s.say("durable %d", end)
		}
	case "background": // what a goroutine of the syncer does
		s.l.syncInBackground()
		s.state()
	case "marks":
		s.fail(s.e.journal.WriteMarks())
	case "pass": // floor=
		s.l.SetFloor(ids.Offset(num(args, "floor", int64(s.l.Bounds().End))))
		res, err := s.l.Maintain(s.t.Context())
		if !s.fail(err) {
			s.say("deleted %d, rolled %v, compacted %d, producers expired %d", res.DeletedSegments, res.Rolled, res.Compacted, res.ExpiredProducers)
		}
		s.state()
	case "advance": // to=
		s.fail(s.l.AdvanceStart(ids.Offset(num(args, "to", 0))))
		s.state()
	case "truncate": // to=
		s.fail(s.l.TruncateTo(ids.Offset(num(args, "to", 0))))
		s.state()
	case "read": // from= limit= bytes= whole
		s.read(args)
	case "time": // ts= limit=
		got, ok, err := s.l.OffsetForTime(num(args, "ts", 0), ids.Offset(num(args, "limit", 1<<40)))
		if !s.fail(err) {
			s.say("found %v: offset %d, timestamp %d, epoch %d", ok, got.Offset, got.Timestamp, got.Epoch)
		}
	case "newest":
		got, ok, err := s.l.MaxTimestamp(ids.Offset(num(args, "limit", 1<<40)))
		if !s.fail(err) {
			s.say("found %v: offset %d, timestamp %d, epoch %d", ok, got.Offset, got.Timestamp, got.Epoch)
		}
	case "epoch-end": // of=
		e, off := s.l.EndOfEpoch(ids.LeaderEpoch(num(args, "of", 0)))
		s.say("epoch %d ends at %d", e, off)
	case "producers":
		s.l.Producers(func(p ProducerState) bool {
			s.say("producer %d: epoch %d, last sequence %d, timestamp %d", p.ID, p.Epoch, p.LastSequence, p.LastTimestamp)
			return true
		})
	default:
		s.world(verb, args)
	}
}

// world is what happens to a log rather than what it is asked to do.
func (s *scripted) world(verb string, args map[string]string) {
	switch verb {
	case "later": // by=
		s.now = s.now.Add(span(args, "by"))
		if s.e != nil {
			s.e.now = s.now
		}
	case "close": // clean
		_, clean := args["clean"]
		s.fail(s.l.Close(clean))
		s.fail(s.e.journal.Close())
	case "kill": // the process
		s.mem = s.mem.ProcessKillImage()
		s.disk = vfs.NewFault(s.mem)
	case "crash": // the machine; nothing that was not synced survives
		s.mem = worstCase(s.mem)
		s.disk = vfs.NewFault(s.mem)
	case "files":
		entries, err := s.mem.ReadDir(testDir)
		if err != nil {
			s.say("none")
		}
		for _, f := range entries {
			info, err := s.mem.Stat(testDir + "/" + f.Name)
			if err != nil {
				s.t.Fatal(err)
			}
			s.say("%s %d", strings.TrimLeft(f.Name[:nameDigits-1], "0")+f.Name[nameDigits-1:], info.Size)
		}
	case "flip", "cut", "zero": // file= at=: a byte, or from there on
		name := testDir + "/" + strings.Repeat("0", nameDigits-len(strings.SplitN(args["file"], ".", 2)[0])) + args["file"]
		b := readFile(s.t, s.mem, name)
		at := num(args, "at", 0)
		if at < 0 {
			at += int64(len(b))
		}
		switch verb {
		case "flip":
			b[at] ^= 1
		case "cut":
			b = b[:at]
		default:
			clear(b[at:])
		}
		writeBack(s.t, s.mem, name, b)
	case "forget-journal":
		loseJournal(s.t, s.mem)
	case "inspect": // all
		_, all := args["all"]
		r := inspect(s.t, s.mem, InspectOptions{VerifyAll: all, RepairChecksumTail: s.repair}).Shards[0]
		s.say("%v, [%d, %d)", r.Verdict, r.Start, r.End)
		for _, f := range r.Findings {
			s.say("%s at byte %d, %d bytes: %s", path.Base(f.File), f.Position, f.Bytes, f.Reason)
		}
	case "fail": // call= err= [once]
		_, once := args["once"]
		rule := vfs.Rule{Err: map[string]error{"full": syscall.ENOSPC, "io": syscall.EIO}[args["err"]], ShortWrite: true}
		rule.Match = func(op vfs.Op) bool {
			return op.Kind.String() == args["call"] && (args["file"] == "" || path.Ext(op.Path) == "."+args["file"])
		}
		if once {
			rule.Nth = 1
		}
		s.disk.Add(rule)
	case "well":
		s.disk.Clear()
	default:
		s.t.Fatalf("unknown step %q", verb)
	}
}

// worstCase is the disk after a crash that kept nothing which was not synced.
func worstCase(m *vfs.Mem) *vfs.Mem {
	var worst *vfs.Mem
	least := int64(1 << 62)
	for seed := range uint64(40) {
		image := m.CrashImage(rand.New(rand.NewPCG(7, seed)))
		size := int64(0)
		entries, err := image.ReadDir(testDir)
		if err != nil {
			return image
		}
		for _, e := range entries {
			if info, err := image.Stat(testDir + "/" + e.Name); err == nil {
				size += info.Size + 1
			}
		}
		if size < least {
			worst, least = image, size
		}
	}
	return worst
}

func (s *scripted) configure(args map[string]string) {
	s.config.SegmentBytes = num(args, "segment", s.config.SegmentBytes)
	s.config.RetentionBytes = num(args, "retention-bytes", s.config.RetentionBytes)
	if d := span(args, "retention-age"); d >= 0 {
		s.config.RetentionAge = d
	}
	if d := span(args, "segment-age"); d >= 0 {
		s.config.SegmentAge = d
	}
	if v, ok := args["compact"]; ok {
		s.config.Compact, s.config.Delete = v == "true", v != "true"
		s.config.DeleteRetention = time.Hour
	}
	if v, ok := args["mode"]; ok {
		m, err := ParseSyncMode(v)
		if err != nil {
			s.t.Fatal(err)
		}
		s.mode = m
	}
	if _, ok := args["repair"]; ok {
		s.repair = true
	}
	if s.l != nil {
		s.l.SetConfig(s.config)
	}
}

func (s *scripted) open() {
	e, err := tryEnv(s.t, s.disk, withMode(s.mode), func(e *env) { e.config, e.now = s.config, s.now },
		withShared(func(sh *Shared) { sh.RepairChecksumTail = s.repair }))
	if err != nil {
		s.fail(err)
		return
	}
	l, err := e.tryOpen()
	if s.fail(err) {
		return
	}
	s.e, s.l = e, l
	s.state()
}

func (s *scripted) state() {
	b := s.l.Bounds()
	s.say("[%d, %d), durable %d, epoch %d, %d segments", b.Start, b.End, b.DurableEnd, b.Epoch, len(s.l.view.Load().segments))
}

func (s *scripted) append(args map[string]string) {
	for i := range num(args, "n", 1) {
		sp := spec{
			records: int(num(args, "records", 1)), size: int(num(args, "size", 100)), epoch: ids.LeaderEpoch(num(args, "epoch", 0)),
			timestamp: num(args, "ts", 1000), key: args["key"], value: args["value"],
		}
		if id := num(args, "pid", -1); id >= 0 {
			sp.producer = &recordbatch.Producer{ID: id, Epoch: int16(num(args, "pepoch", 0)), BaseSequence: int32(num(args, "seq", 0)) + int32(i)*int32(sp.records)}
		}
		r, err := s.l.Append(sp.input(s.t))
		if s.fail(err) {
			return
		}
		if r.Duplicate {
			s.say("duplicate of [%d, %d), timestamp %d", r.Base, r.Next, r.MaxTimestamp)
		}
	}
	s.state()
}

func (s *scripted) read(args map[string]string) {
	_, whole := args["whole"]
	end := s.l.Bounds().End
	chunks, n, err := s.l.Read(ids.Offset(num(args, "from", 0)), ids.Offset(num(args, "limit", int64(end))), int(num(args, "bytes", 1<<20)), whole, nil)
	if s.fail(err) {
		return
	}
	var batches []string
	for _, c := range chunks {
		for rest := c.Data; len(rest) > 0; {
			h, _, tail, err := recordbatch.Next(rest)
			if err != nil {
				s.t.Fatal(err)
			}
			batches = append(batches, fmt.Sprintf("%d-%d", h.BaseOffset, h.LastOffset()))
			rest = tail
		}
		c.Ref.Release()
	}
	s.say("%d bytes: %s", n, strings.Join(batches, " "))
}
