package groups

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata")

// TestGroupScripts runs every script of testdata: a line is a step in the life of a group, the indented lines below it what came of
// it and the state after it. Lines that begin with # are comments.
func TestGroupScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
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

var scriptStart = time.UnixMilli(1_000_000)

// scripted is a group under a script.
type scripted struct {
	t      *testing.T
	g      *group
	limits limits
	now    time.Time
	ids    map[string]int // how many member ids were made of a name
	calls  int            // joins and syncs made
	open   map[int]string // those without an answer
	out    strings.Builder
}

func runScript(t *testing.T, text string) string {
	t.Helper()
	s := &scripted{t: t, now: scriptStart, ids: map[string]int{}, open: map[int]string{}}
	s.limits = limits{minSession: 6 * time.Second, maxSession: 30 * time.Minute, initialRebalanceDelay: 3 * time.Second}
	s.g = newGroup(Key{Tenant: "t", Group: "g"}, &s.limits)
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
		s.step(words[0], words[1:], args)
	}
	return s.out.String()
}

func (s *scripted) say(format string, args ...any) { fmt.Fprintf(&s.out, "    "+format+"\n", args...) }

func (s *scripted) step(verb string, words []string, args map[string]string) {
	var fx effects
	switch verb {
	case "limits": // delay= size= bytes=
		s.limits.initialRebalanceDelay = span(args, "delay", s.limits.initialRebalanceDelay)
		s.limits.maxSize = int(number(args, "size", int64(s.limits.maxSize)))
		s.limits.maxBytes = int(number(args, "bytes", int64(s.limits.maxBytes)))
		return
	case "join": // <name> id= instance= version= type= speaks= session= rebalance=
		s.join(words[0], args, &fx)
	case "sync": // <id> gen= instance= type= protocol= give=<id>:<bytes>,...
		s.sync(words[0], args, &fx)
	case "beat": // <id> gen= instance=
		err := s.g.heartbeat(s.now, words[0], args["instance"], s.generation(args))
		s.say("%v", errcode.Of(err))
		return
	case "commit": // <id> gen= instance=
		id := words[0]
		if id == "nobody" {
			id = ""
		}
		err := s.g.checkCommit(s.now, id, args["instance"], s.generation(args))
		s.say("%v", errcode.Of(err))
		return
	case "leave": // <id>[/<instance>] ...
		var list []Leaving
		for _, w := range words {
			id, instance, _ := strings.Cut(w, "/")
			list = append(list, Leaving{MemberID: id, InstanceID: instance})
		}
		for i, err := range s.g.leave(s.now, list, &fx) {
			s.say("%s: %v", words[i], errcode.Of(err))
		}
	case "written": // gen= [lost]
		var err error
		if _, lost := args["lost"]; lost {
			err = ErrNotAvailable
		}
		s.g.persisted(s.now, s.generation(args), err, &fx)
	case "later": // <duration>: everything that is due on the way
		s.later(words[0])
	case "load": // what another node makes of the newest record
		s.g = loadGroup(s.g.key, s.g.record(), &s.limits, s.now)
	case "abandon":
		s.g.abandon(ErrNotCoordinator, &fx)
	case "describe":
		s.describe()
		return
	case "record":
		s.record()
		return
	default:
		s.t.Fatalf("unknown step %q", verb)
	}
	s.settle(&fx)
	s.state()
}

// generation is the one that the script names, else the group's.
func (s *scripted) generation(args map[string]string) int32 {
	return int32(number(args, "gen", int64(s.g.generation)))
}

func number(args map[string]string, name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(args[name], 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

func span(args map[string]string, name string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(args[name])
	if err != nil {
		return otherwise
	}
	return d
}

// join is a client of a name that joins. What it speaks is range alone unless the script says, and its metadata is its name.
func (s *scripted) join(name string, args map[string]string, fx *effects) {
	r := &JoinRequest{
		Key: s.g.key, MemberID: args["id"], InstanceID: args["instance"], ClientID: name, ClientHost: "/127.0.0.1",
		SessionTimeout: span(args, "session", 10*time.Second), RebalanceTimeout: span(args, "rebalance", time.Minute),
		ProtocolType: "consumer", Protocols: []Protocol{{Name: "range", Metadata: []byte(name)}},
	}
	version := number(args, "version", 3)
	r.RequireMemberID, r.CanSkipAssignment = version >= 4, version >= 9
	if v, ok := args["type"]; ok {
		r.ProtocolType = v
	}
	if speaks, ok := args["speaks"]; ok {
		r.Protocols = nil
		for p := range strings.SplitSeq(speaks, ",") {
			n, metadata, _ := strings.Cut(p, ":")
			r.Protocols = append(r.Protocols, Protocol{Name: n, Metadata: []byte(metadata)})
		}
	}
	if n := number(args, "metadata", -1); n >= 0 {
		r.Protocols[0].Metadata = make([]byte, n)
	}
	if _, nameless := args["nameless"]; nameless {
		s.g.key.Group = ""
	}
	id := name
	if r.InstanceID != "" {
		id = r.InstanceID
	}
	call := s.call("join of " + name)
	fresh := fmt.Sprintf("%s-%d", id, s.ids[id]+1)
	s.g.join(s.now, fresh, r, func(res *JoinResult) {
		s.answered(call)
		s.say("%s: %s", name, joinText(res))
	}, fx)
	if s.g.byID[fresh] != nil || s.g.pending[fresh] != nil {
		s.ids[id]++
	}
}

func joinText(res *JoinResult) string {
	if res.Err != nil {
		return fmt.Sprintf("join refused: %v, id %q", errcode.Of(res.Err), res.MemberID)
	}
	text := fmt.Sprintf("joined as %s: generation %d, %s %s, leader %s", res.MemberID, res.Generation, res.ProtocolType, res.Protocol, res.Leader)
	if res.SkipAssignment {
		text += ", to assign nothing"
	}
	if len(res.Members) > 0 {
		text += ", of"
	}
	for _, m := range res.Members {
		text += " " + m.MemberID
		if m.InstanceID != "" {
			text += "/" + m.InstanceID
		}
		text += "(" + strings.Trim(bytesText(m.Metadata), `"`) + ")"
	}
	return text
}

func (s *scripted) sync(id string, args map[string]string, fx *effects) {
	r := &SyncRequest{
		Key: s.g.key, MemberID: id, InstanceID: args["instance"], Generation: s.generation(args),
		ProtocolType: args["type"], Protocol: args["protocol"],
	}
	for part := range strings.SplitSeq(args["give"], ",") {
		if to, bytes, ok := strings.Cut(part, ":"); ok {
			r.Assignments = append(r.Assignments, Assignment{MemberID: to, Bytes: []byte(bytes)})
		}
	}
	if n := number(args, "bytes", -1); n >= 0 {
		r.Assignments = append(r.Assignments, Assignment{MemberID: id, Bytes: make([]byte, n)})
	}
	call := s.call("sync of " + id)
	s.g.sync(s.now, r, func(res *SyncResult) {
		s.answered(call)
		if res.Err != nil {
			s.say("%s: sync refused: %v", id, errcode.Of(res.Err))
			return
		}
		s.say("%s: %s %s, assigned %s", id, res.ProtocolType, res.Protocol, bytesText(res.Assignment))
	}, fx)
}

// bytesText shows what is short enough.
func bytesText(b []byte) string {
	if len(b) > 20 {
		return fmt.Sprintf("%d bytes", len(b))
	}
	return strconv.Quote(string(b))
}

func (s *scripted) call(what string) int {
	s.calls++
	s.open[s.calls] = what
	return s.calls
}

func (s *scripted) answered(call int) {
	if _, isOpen := s.open[call]; !isOpen {
		s.t.Errorf("call %d is answered twice", call)
	}
	delete(s.open, call)
}

// settle gives the answers of a step and checks what must hold after each.
func (s *scripted) settle(fx *effects) {
	s.t.Helper()
	deliver(fx)
	if fx.persist {
		s.say("write generation %d", s.g.generation)
	}
	if broken := brokenRule(s.g, s.now); broken != "" {
		s.t.Errorf("%v after the start: %s", s.now.Sub(scriptStart), broken)
	}
	waits := 0
	for _, m := range s.g.byID {
		if m.joinDone != nil {
			waits++
		}
		if m.syncDone != nil {
			waits++
		}
	}
	if waits != len(s.open) {
		s.t.Errorf("%v after the start: %d members wait, of calls %v", s.now.Sub(scriptStart), waits, s.open)
	}
}

func deliver(fx *effects) {
	for _, r := range fx.replies {
		if r.joinDone != nil {
			r.joinDone(r.join)
		}
		if r.syncDone != nil {
			r.syncDone(r.sync)
		}
	}
	fx.replies = nil
}

func (s *scripted) state() {
	text := fmt.Sprintf("%s, generation %d", s.g.state(), s.g.generation)
	if len(s.g.byID)+len(s.g.pending) > 0 {
		text += fmt.Sprintf(", %d members", len(s.g.byID))
	}
	if n := s.g.waiting; n > 0 {
		text += fmt.Sprintf(", %d joined", n)
	}
	if n := len(s.g.pending); n > 0 {
		text += fmt.Sprintf(", %d pending", n)
	}
	if n := s.g.unsynced; n > 0 {
		text += fmt.Sprintf(", %d to sync", n)
	}
	s.say("%s", text)
}

// later lets time pass, stopping wherever the group wants to be looked at.
func (s *scripted) later(by string) {
	d, err := time.ParseDuration(by)
	if err != nil {
		s.t.Fatal(err)
	}
	end := s.now.Add(d)
	for {
		at, ok := s.g.deadline()
		if !ok || at.After(end) {
			break
		}
		s.now = at
		before := s.out.Len()
		var fx effects
		stage := s.g.stage
		s.g.expire(s.now, &fx)
		s.settle(&fx)
		if s.out.Len() != before || s.g.stage != stage {
			s.say("at %v", s.now.Sub(scriptStart))
		}
	}
	s.now = end
}

func (s *scripted) describe() {
	d := s.g.describe()
	s.say("%s, type %q, protocol %q", d.State, d.ProtocolType, d.Protocol)
	for _, m := range d.Members {
		s.say("%s instance %q client %s%s: metadata %q assignment %q", m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, m.Metadata, m.Assignment)
	}
}

func (s *scripted) record() {
	r := s.g.record()
	s.say("generation %d, type %q, protocol %q, leader %q, changed %v after the start", r.Generation, r.ProtocolType, r.Protocol, r.Leader,
		time.UnixMilli(r.ChangedAt).Sub(scriptStart))
	for _, m := range r.Members {
		s.say("%s instance %q client %s%s session %d rebalance %d: subscription %q assignment %q", m.ID, m.InstanceID, m.ClientID, m.ClientHost,
			m.SessionTimeoutMs, m.RebalanceTimeoutMs, m.Subscription, m.Assignment)
	}
}
