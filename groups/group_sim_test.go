package groups

import (
	"bytes"
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "the one seed that TestGroupSimulation runs; 0: many")
	simSeeds = flag.Int("sim.seeds", 100, "how many seeds it runs")
)

// TestGroupSimulation lets clients that behave well, on a network and machines that do not, work on one group: answers are late or lost,
// clients crash, are slow, leave, start again and change their minds, records are lost, and the coordinator moves with what was stored.
// What must hold is checked after every step. When the world has become quiet the group must come to rest, in bounded time, with exactly
// those that are alive.
func TestGroupSimulation(t *testing.T) {
	if *simSeed != 0 {
		newSim(t, *simSeed).run()
		return
	}
	seeds := *simSeeds
	if testing.Short() {
		seeds = 30
	}
	for seed := range uint64(seeds) {
		if newSim(t, seed+1).run(); t.Failed() {
			return
		}
	}
}

const (
	simChaos = 15 * time.Minute // how long the world is unkind
	// simRest bounds coming to rest: new members that nobody owns any more go after five minutes, and what they made others wait for ends
	// with the sessions and rebalance timeouts, all below a minute.
	simRest = newMemberJoinTimeout + 5*time.Minute
)

// event is something that happens at a time of the simulation.
type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

type sim struct {
	t       *testing.T
	seed    uint64
	rnd     *rand.Rand
	now     time.Time
	seq     int
	todo    events
	trace   []string
	quiet   bool
	limits  limits
	g       *group
	term    int // which coordinator g is of
	clients []*client
	ids     int
	calls   int
	open    map[int]string // calls without an answer of the coordinator
	writes  []*simWrite    // in the order in which they will be decided
	stored  *groupRecord   // the newest record that is committed
	last    int32          // generation seen of this coordinator
	leaders map[int32]string
}

type simWrite struct {
	term int
	rec  *groupRecord
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), now: scriptStart, open: map[int]string{}, leaders: map[int32]string{}}
	s.limits = limits{minSession: 6 * time.Second, maxSession: 30 * time.Minute, maxBytes: 1 << 20}
	s.limits.initialRebalanceDelay = time.Duration(s.rnd.IntN(5)-1) * time.Second
	count := 1 + s.rnd.IntN(9)
	if s.rnd.IntN(4) == 0 {
		s.limits.maxSize = 1 + s.rnd.IntN(count)
	}
	s.g = newGroup(Key{Tenant: "t", Group: "g"}, &s.limits)
	for i := range count {
		c := &client{
			s: s, name: string(rune('a' + i)), version: []int{3, 4, 9}[s.rnd.IntN(3)],
			session: time.Duration(6+s.rnd.IntN(25)) * time.Second, rebalance: time.Duration(5+s.rnd.IntN(40)) * time.Second,
		}
		if s.rnd.IntN(3) == 0 {
			c.instance = "i-" + c.name
		}
		c.change()
		s.clients = append(s.clients, c)
		s.after(s.some(20*time.Second), c.start)
	}
	s.after(s.some(time.Minute), s.unkind)
	return s
}

// some is a duration below most, mostly far below it.
func (s *sim) some(most time.Duration) time.Duration {
	f := s.rnd.Float64()
	return time.Duration(float64(most) * f * f * f)
}

func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.todo, event{at: s.now.Add(d), seq: s.seq, do: do})
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%9.3f ", s.now.Sub(scriptStart).Seconds())+fmt.Sprintf(format, args...))
	if len(s.trace) > 150 {
		s.trace = s.trace[50:]
	}
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	if !s.t.Failed() {
		s.t.Errorf("seed %d: %s\nthe last steps:\n%s", s.seed, fmt.Sprintf(format, args...), strings.Join(s.trace, "\n"))
	}
}

// until lets the world go on to a time.
func (s *sim) until(end time.Time) {
	for !s.t.Failed() {
		at, due := s.g.deadline()
		if due && at.Before(s.now) {
			s.fail("deadline %v ago after a step", s.now.Sub(at))
			return
		}
		if len(s.todo) > 0 && (!due || !at.Before(s.todo[0].at)) {
			if s.todo[0].at.After(end) {
				break
			}
			e := heap.Pop(&s.todo).(event)
			s.now = e.at
			e.do()
			continue
		}
		if !due || at.After(end) {
			break
		}
		s.now = at
		s.step("expire", func(fx *effects) { s.g.expire(s.now, fx) })
		if again, ok := s.g.deadline(); ok && !again.After(s.now) {
			s.fail("expire left something due")
		}
	}
	s.now = end
}

// step does one step of the machine, what it asks for, and the checks.
func (s *sim) step(what string, do func(fx *effects)) {
	s.t.Helper()
	var fx effects
	do(&fx)
	s.note("%s: %s generation %d, %d members, %d joined, %d pending",
		what, s.g.state(), s.g.generation, len(s.g.byID), s.g.waiting, len(s.g.pending))
	if fx.persist {
		s.writes = append(s.writes, &simWrite{term: s.term, rec: s.g.record()})
		s.after(s.some(3*time.Second), s.decide)
	}
	if broken := brokenRule(s.g, s.now); broken != "" {
		s.fail("%s", broken)
	}
	if s.g.stage != stageDead {
		if s.g.generation < s.last {
			s.fail("generation fell from %d to %d", s.last, s.g.generation)
		}
		s.last = s.g.generation
	}
	deliver(&fx)
}

// decide gives the outcome of the oldest write.
func (s *sim) decide() {
	w := s.writes[0]
	s.writes = s.writes[1:]
	var err error
	if !s.quiet && s.rnd.IntN(12) == 0 {
		err = ErrNotAvailable
	}
	if w.term != s.term {
		return // neither written nor asked for any more
	}
	if err == nil {
		s.stored = w.rec
	}
	s.step(fmt.Sprintf("written %d: %v", w.rec.Generation, err), func(fx *effects) { s.g.persisted(s.now, w.rec.Generation, err, fx) })
}

// unkind is what happens to people: to a client, or to the coordinator.
func (s *sim) unkind() {
	if s.quiet {
		return
	}
	s.after(s.some(time.Minute), s.unkind)
	c := s.clients[s.rnd.IntN(len(s.clients))]
	switch s.rnd.IntN(12) {
	case 0:
		s.note("the coordinator moves")
		if len(s.writes) > 0 && s.rnd.IntN(2) == 0 && s.writes[0].term == s.term {
			s.stored = s.writes[0].rec // it was stored, but nobody was told
		}
		s.step("abandon", func(fx *effects) { s.g.abandon(ErrNotCoordinator, fx) })
		s.term++
		s.last = 0
		s.leaders = map[int32]string{}
		if s.stored == nil {
			s.g = newGroup(s.g.key, &s.limits)
			return
		}
		s.g = loadGroup(s.g.key, s.stored, &s.limits, s.now)
	case 1, 2, 3, 4:
		s.note("%s crashes", c.name)
		c.stop()
		s.after(s.some(time.Minute), c.start)
	case 5, 6:
		c.leave()
		s.after(s.some(time.Minute), c.start)
	case 7, 8, 9:
		s.note("%s changes its mind", c.name)
		c.change()
		if c.isIn {
			c.join()
		}
	default:
		s.note("%s is slow", c.name)
		c.pausedTill = s.now.Add(s.some(time.Minute))
	}
}

func (s *sim) run() {
	s.t.Helper()
	s.until(s.now.Add(simChaos))
	s.quiet = true
	for _, c := range s.clients {
		if s.rnd.IntN(4) == 0 {
			c.stop()
			c.gone = true
		}
	}
	s.until(s.now.Add(simRest))
	resting := s.g.generation
	s.until(s.now.Add(5 * time.Minute))
	alive := map[string]bool{}
	for _, c := range s.clients {
		if c.running {
			alive[c.name] = true
		}
	}
	want := len(alive)
	if s.limits.maxSize > 0 {
		want = min(want, s.limits.maxSize)
	}
	switch {
	case s.t.Failed():
	case s.g.generation != resting:
		s.fail("generation %d became %d while nothing happened", resting, s.g.generation)
	case s.g.members() != want || want > 0 && s.g.stage != stageStable || want == 0 && s.g.stage != stageEmpty:
		s.fail("%s with %d members, of %v alive", s.g.state(), s.g.members(), alive)
	case len(s.open) > 0:
		s.fail("calls without an answer: %v", s.open)
	}
	for _, m := range s.g.byID {
		if !alive[m.clientID] {
			s.fail("%s of %s is dead", m.id, m.clientID)
		}
	}
}

// client is one that behaves as Kafka's do: it joins, syncs, sends heartbeats, and starts over when told.
type client struct {
	s                  *sim
	name, instance     string
	version            int
	session, rebalance time.Duration
	protocols          []Protocol

	life       int // counts what makes older answers of no interest: each call and each start
	running    bool
	gone       bool // for good
	isIn       bool // has an assignment
	pausedTill time.Time
	id         string
	generation int32
}

// slot is what an assignment is for, whatever member id it has.
func slot(instance, id string) string {
	if instance != "" {
		return instance
	}
	return id
}

// change makes the client say something else from its next join on; range is what all speak.
func (c *client) change() {
	word := func() []byte { return fmt.Appendf(nil, "%s%d", c.name, c.s.rnd.IntN(1000)) }
	c.protocols = []Protocol{{"range", word()}}
	for _, other := range []string{"sticky", "roundrobin"} {
		switch c.s.rnd.IntN(3) {
		case 0:
			c.protocols = append(c.protocols, Protocol{other, word()})
		case 1:
			c.protocols = append([]Protocol{{other, word()}}, c.protocols...)
		}
	}
}

func (c *client) start() {
	if c.running || c.gone {
		return
	}
	c.running, c.id, c.generation = true, "", 0
	c.join()
}

func (c *client) stop() {
	c.running, c.isIn = false, false
	c.life++
}

func (c *client) leave() {
	if !c.running || c.id == "" {
		return
	}
	l := []Leaving{{MemberID: c.id, InstanceID: c.instance}}
	c.stop()
	c.s.after(c.s.some(5*time.Second), func() {
		c.s.step(c.name+" leaves as "+l[0].MemberID, func(fx *effects) { c.s.g.leave(c.s.now, l, fx) })
	})
}

// call sends a request and hands its answer back, either of which may be late; the answer may be lost, or nobody may want it any more.
// Without one the client does something else after patience.
func (c *client) call(what string, patience time.Duration, do func(fx *effects, answer func(then func())), otherwise func()) {
	s := c.s
	c.life++
	life := c.life
	wanted := func() bool { return c.life == life && c.running }
	if !s.quiet && s.rnd.IntN(30) == 0 {
		s.after(patience, func() { c.whenAwake(wanted, otherwise) })
		return
	}
	s.after(c.delay(), func() {
		s.calls++
		call := s.calls
		s.open[call] = c.name + " " + what
		s.after(patience, func() { c.whenAwake(wanted, otherwise) })
		s.step(c.name+" "+what, func(fx *effects) {
			do(fx, func(then func()) {
				if _, isOpen := s.open[call]; !isOpen {
					s.fail("%s %s is answered twice", c.name, what)
				}
				delete(s.open, call)
				if s.quiet || s.rnd.IntN(20) > 0 {
					s.after(c.delay(), func() { c.whenAwake(wanted, then) })
				}
			})
		})
	})
}

func (c *client) delay() time.Duration {
	if c.s.quiet {
		return c.s.some(100 * time.Millisecond)
	}
	return c.s.some(8 * time.Second)
}

// whenAwake does something now, or when the client is no longer slow, if it is still wanted then.
func (c *client) whenAwake(wanted func() bool, do func()) {
	switch {
	case !wanted():
	case c.s.now.Before(c.pausedTill):
		c.s.after(c.pausedTill.Sub(c.s.now), func() { c.whenAwake(wanted, do) })
	default:
		do()
	}
}

func (c *client) joinIn(d time.Duration) {
	c.life++
	life := c.life
	c.s.after(d, func() { c.whenAwake(func() bool { return c.running && c.life == life }, c.join) })
}

func (c *client) join() {
	s := c.s
	c.isIn = false
	r := &JoinRequest{
		Key: s.g.key, MemberID: c.id, InstanceID: c.instance, ClientID: c.name, SessionTimeout: c.session, RebalanceTimeout: c.rebalance,
		ProtocolType: "consumer", Protocols: c.protocols, RequireMemberID: c.version >= 4, CanSkipAssignment: c.version >= 9,
	}
	s.ids++
	id := fmt.Sprintf("%s-%d", slot(c.instance, c.name), s.ids)
	c.call(fmt.Sprintf("joins as %q", c.id), c.rebalance+5*time.Second, func(fx *effects, answer func(func())) {
		s.g.join(s.now, id, r, func(res *JoinResult) {
			s.checkJoin(c, res)
			answer(func() { c.joined(res) })
		}, fx)
	}, c.join)
}

// checkJoin is that a generation has one leader, and that nobody else is told who is in it.
func (s *sim) checkJoin(c *client, res *JoinResult) {
	s.note("  %s: joined as %q: %v generation %d leader %s of %d", c.name, res.MemberID, res.Err, res.Generation, res.Leader, len(res.Members))
	if res.Err != nil || len(res.Members) == 0 {
		return
	}
	if res.Leader != res.MemberID {
		s.fail("%s is told of the members but does not lead", res.MemberID)
	}
	who := slot(c.instance, res.MemberID)
	if other, ok := s.leaders[res.Generation]; ok && other != who {
		s.fail("generation %d has the leaders %s and %s", res.Generation, other, who)
	}
	s.leaders[res.Generation] = who
}

func (c *client) joined(res *JoinResult) {
	switch {
	case res.Err == nil:
		c.id, c.generation = res.MemberID, res.Generation
		c.sync(res)
	case errors.Is(res.Err, ErrMemberIDRequired):
		c.id = res.MemberID
		c.join()
	case errors.Is(res.Err, ErrFencedInstance):
		// Another process of this instance id would be to blame. Here it is this one's own earlier request that came late.
		c.id = ""
		c.joinIn(time.Second)
	case errors.Is(res.Err, ErrUnknownMember), errors.Is(res.Err, ErrGroupFull):
		c.id = ""
		c.joinIn(time.Second)
	default:
		c.joinIn(100 * time.Millisecond)
	}
}

func (c *client) sync(j *JoinResult) {
	s := c.s
	r := &SyncRequest{
		Key: s.g.key, MemberID: c.id, InstanceID: c.instance, Generation: c.generation,
		ProtocolType: j.ProtocolType, Protocol: j.Protocol,
	}
	if !j.SkipAssignment {
		for _, m := range j.Members {
			r.Assignments = append(r.Assignments, Assignment{m.MemberID, fmt.Appendf(nil, "%d:%s", j.Generation, slot(m.InstanceID, m.MemberID))})
		}
	}
	c.call(fmt.Sprintf("syncs as %s generation %d", c.id, c.generation), c.rebalance+5*time.Second, func(fx *effects, answer func(func())) {
		s.g.sync(s.now, r, func(res *SyncResult) {
			s.checkSync(r, res)
			answer(func() {
				switch {
				case res.Err == nil:
					c.isIn = true
					c.life++
					c.beatIn()
				case errors.Is(res.Err, ErrUnknownMember), errors.Is(res.Err, ErrFencedInstance):
					c.id = ""
					c.joinIn(time.Second)
				default:
					c.joinIn(100 * time.Millisecond)
				}
			})
		}, fx)
	}, c.join)
}

// checkSync is that an assignment is the one that the leader of that generation made for this member, and that it is stored.
func (s *sim) checkSync(r *SyncRequest, res *SyncResult) {
	s.note("  %s: assigned %q %v", r.MemberID, res.Assignment, res.Err)
	if res.Err != nil {
		return
	}
	want := fmt.Appendf(nil, "%d:%s", r.Generation, slot(r.InstanceID, r.MemberID))
	if !bytes.Equal(res.Assignment, want) {
		s.fail("%s got %q in generation %d", r.MemberID, res.Assignment, r.Generation)
	}
	if s.stored == nil || s.stored.Generation != r.Generation {
		s.fail("%s got an assignment of generation %d that is not stored", r.MemberID, r.Generation)
	}
}

func (c *client) beatIn() {
	life := c.life
	c.s.after(c.session/3, func() { c.whenAwake(func() bool { return c.running && c.life == life }, c.beat) })
}

func (c *client) beat() {
	s := c.s
	c.call(fmt.Sprintf("beats as %s generation %d", c.id, c.generation), c.session/3, func(_ *effects, answer func(func())) {
		err := s.g.heartbeat(s.now, c.id, c.instance, c.generation)
		s.note("  %s: beat: %v", c.name, err)
		answer(func() {
			switch {
			case err == nil && s.rnd.IntN(3) == 0:
				c.commit()
			case err == nil:
				c.life++
				c.beatIn()
			case errors.Is(err, ErrUnknownMember), errors.Is(err, ErrFencedInstance):
				c.id = ""
				c.join()
			default:
				c.join()
			}
		})
	}, c.beat)
}

// commit goes through exactly for a member of the present generation that may have an assignment.
func (c *client) commit() {
	s := c.s
	id, generation := c.id, c.generation
	c.call("commits", c.session/3, func(_ *effects, answer func(func())) {
		err := s.g.checkCommit(s.now, id, c.instance, generation)
		m := s.g.byID[id]
		if may := m != nil && generation == s.g.generation && s.g.stage != stageCompleting; may != (err == nil) {
			s.fail("%s commits in %s generation %d: %v", id, s.g.state(), s.g.generation, err)
		}
		answer(func() {
			if err != nil {
				c.beat()
				return
			}
			c.life++
			c.beatIn()
		})
	}, c.beat)
}
