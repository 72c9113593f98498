package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrderedAgainstModel changes lists at random and compares each version, old ones too, with a sorted slice.
func TestOrderedAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	type version struct {
		list  ordered[*Cache]
		names []string
	}
	check := func(v version) {
		t.Helper()
		var got []string
		for c := range v.list.each() {
			got = append(got, c.Name)
		}
		if !slices.Equal(got, v.names) || v.list.n != len(v.names) {
			t.Fatalf("%d entries, sorted %t, counted %d; want %d", len(got), slices.IsSorted(got), v.list.n, len(v.names))
		}
		key := &Cache{Name: fmt.Sprintf("%05d", rng.IntN(3000))}
		i, there := slices.BinarySearch(v.names, key.Name)
		if _, found := v.list.get(key); found != there {
			t.Fatalf("%s is found: %t, is there: %t", key.Name, found, there)
		}
		for _, inclusive := range []bool{true, false} {
			want := v.names[i:]
			if there && !inclusive {
				want = want[1:]
			}
			got = nil
			for c := range v.list.from(key, inclusive) {
				got = append(got, c.Name)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("from %s: %d entries, want %d", key.Name, len(got), len(want))
			}
		}
	}
	var kept []version
	var now version
	for round := range 300 {
		o := new(owner)
		now.names = slices.Clone(now.names)
		remove := round%40 > 25
		for range 1 + rng.IntN(60) {
			name := fmt.Sprintf("%05d", rng.IntN(3000))
			if round < 20 {
				name = fmt.Sprintf("%05d", now.list.n) // in order
			}
			i, there := slices.BinarySearch(now.names, name)
			switch {
			case remove && there:
				now.names = slices.Delete(now.names, i, i+1)
			case !remove && !there:
				now.names = slices.Insert(now.names, i, name)
			}
			if remove {
				now.list.remove(o, &Cache{Name: name})
			} else {
				now.list.put(o, &Cache{Name: name})
			}
		}
		check(now)
		if round%10 == 0 {
			kept = append(kept, now)
		}
	}
	for _, v := range kept {
		check(v)
	}
	o := new(owner)
	for _, name := range slices.Clone(now.names) {
		now.list.remove(o, &Cache{Name: name})
	}
	if len(now.list.chunks) != 0 || now.list.n != 0 {
		t.Errorf("%d chunks, %d entries are left of nothing", len(now.list.chunks), now.list.n)
	}
}

func BenchmarkOrderedPut(b *testing.B) {
	var list ordered[*Cache]
	for i := range 100_000 {
		list.put(nil, &Cache{Name: fmt.Sprintf("%06d", i)})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l := list
		l.put(new(owner), &Cache{Name: fmt.Sprintf("%06dx", i%100_000)})
	}
}
