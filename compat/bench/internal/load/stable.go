package load

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// roundTimeout bounds one round of Stable.
const roundTimeout = 60 * time.Second

// runStable is Stable: rounds of a fresh group each.
func runStable(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	if spec.Members <= 0 || spec.Partitions%spec.Members != 0 {
		return nil, fmt.Errorf("%d partitions cannot be shared evenly by %d members", spec.Partitions, spec.Members)
	}
	for i := range spec.WarmRounds {
		if _, _, err := stableRound(ctx, spec, fmt.Sprintf("warm-%s-%d", spec.Balancer, i)); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	res := &Result{}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	for i := range spec.Rounds {
		took, generation, err := stableRound(ctx, spec, fmt.Sprintf("round-%s-%d", spec.Balancer, i))
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i, err)
		}
		res.RoundMS = append(res.RoundMS, float64(took)/float64(time.Millisecond))
		res.Generations = append(res.Generations, generation)
	}
	return res, m.end(res)
}

// stableRound connects the members of a group, has all of them begin to consume at once and returns how long it took until each has its
// share, with the generation that this was. Connecting before and leaving after are not in the time.
func stableRound(ctx context.Context, spec *Spec, group string) (took time.Duration, generation int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	s := newShares(spec.Members, spec.Partitions)
	members := make([]*kgo.Client, 0, spec.Members)
	defer func() { leaveAll(members) }()
	for i := range spec.Members {
		cl, err := kgo.NewClient(memberOpts(spec, group, s, i)...)
		if err != nil {
			return 0, 0, err
		}
		members = append(members, cl)
	}
	if err := eachOf(members, func(cl *kgo.Client) error { return ping(ctx, cl) }); err != nil {
		return 0, 0, fmt.Errorf("connect: %w", err)
	}
	start := time.Now()
	for _, cl := range members {
		cl.AddConsumeTopics(spec.Topic)
	}
	select {
	case <-s.even:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("not stable: %s: %w", s, ctx.Err())
	}
	took = s.at.Sub(start)
	_, generation = members[0].GroupMetadata()
	return took, generation, s.failure()
}

// memberOpts are franz-go's options for member i of a group that consumes nothing yet.
func memberOpts(spec *Spec, group string, s *shares, i int) []kgo.Opt {
	balancer := kgo.RangeBalancer()
	if spec.Balancer == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	lost := func(_ context.Context, _ *kgo.Client, m map[string][]int32) { s.lost(i, m[spec.Topic]) }
	return []kgo.Opt{
		kgo.SeedBrokers(spec.Broker), kgo.ConsumerGroup(group), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(time.Duration(spec.HeartbeatMS) * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { s.assigned(i, m[spec.Topic]) }),
		kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost),
	}
}

// leaveAll ends the members of a round, all at once: one that leaves alone would have the others share out its part first.
func leaveAll(members []*kgo.Client) {
	_ = eachOf(members, func(cl *kgo.Client) error {
		cl.Close()
		return nil
	})
}

// eachOf calls f for all clients at once and returns the first error.
func eachOf(clients []*kgo.Client, f func(*kgo.Client) error) error {
	errs := make(chan error, len(clients))
	for _, cl := range clients {
		go func() { errs <- f(cl) }()
	}
	var first error
	for range clients {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// shares says which member holds which partition of a group, by what the members are told.
type shares struct {
	each int           // partitions of each member once all is shared out
	even chan struct{} // closed when all is, for the first time
	at   time.Time     // of that; read after even is closed

	mu    sync.Mutex
	owner []int // by partition; -1: nobody
	held  []int // by member
	left  int   // members without their full share
	err   error // of the first partition that had two owners
}

func newShares(members, partitions int) *shares {
	s := &shares{each: partitions / members, even: make(chan struct{}), owner: make([]int, partitions), held: make([]int, members), left: members}
	for p := range s.owner {
		s.owner[p] = -1
	}
	return s
}

// String is for the error of a round that does not end.
func (s *shares) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := 0
	for _, o := range s.owner {
		if o < 0 {
			free++
		}
	}
	return fmt.Sprintf("%d of %d members lack their share, %d partitions are nobody's", s.left, len(s.held), free)
}

func (s *shares) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *shares) assigned(member int, partitions []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		if other := s.owner[p]; other >= 0 && s.err == nil {
			s.err = fmt.Errorf("partition %d was given to member %d while member %d had it", p, member, other)
		}
		s.owner[p] = member
	}
	s.holdLocked(member, len(partitions))
	if s.left > 0 {
		return
	}
	select {
	case <-s.even:
	default:
		s.at = time.Now()
		close(s.even)
	}
}

func (s *shares) lost(member int, partitions []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		if s.owner[p] == member {
			s.owner[p] = -1
		}
	}
	s.holdLocked(member, -len(partitions))
}

// holdLocked notes that a member has so many partitions more, or less.
func (s *shares) holdLocked(member, more int) {
	if s.held[member] == s.each {
		s.left++
	}
	s.held[member] += more
	if s.held[member] == s.each {
		s.left--
	}
}
