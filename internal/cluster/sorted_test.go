package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortedTopicsAgainstModel adds and removes topics of several tenants in many versions and compares listings, whole and from keys on,
// with a sorted slice, also of versions that were left behind: they must not change.
func TestSortedTopicsAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	type version struct {
		m    *Image
		want []topicKey
	}
	m := NewImage(nil)
	var versions []version
	made := 0
	for range 120 {
		b := NewBuilder(m)
		for range rng.IntN(200) {
			k := topicKey{fmt.Sprint("t", rng.IntN(3)), fmt.Sprint("n", rng.IntN(3)), fmt.Sprintf("s%04d", rng.IntN(700))}
			if have := b.Current().Topic(k.tenant, k.namespace, k.name); have != nil {
				b.DeleteTopic(have)
				continue
			}
			made++
			if err := b.PutTopic(&Topic{ID: id(made), Tenant: k.tenant, Namespace: k.namespace, Name: k.name}); err != nil {
				t.Fatal(err)
			}
		}
		m = b.Build(m.Version() + 1)
		var want []topicKey
		m.EachTopic(func(t *Topic) bool { want = append(want, keyOf(t)); return true })
		slices.SortFunc(want, compareKeys)
		versions = append(versions, version{m, want})
	}
	for _, v := range versions {
		var got []topicKey
		for _, topic := range v.m.SortedTopics() {
			got = append(got, keyOf(topic))
		}
		if !slices.Equal(got, v.want) {
			t.Fatalf("version %d lists %d topics otherwise than the model, which has %d", v.m.Version(), len(got), len(v.want))
		}
		for range 20 {
			after := topicKey{fmt.Sprint("t", rng.IntN(4)), fmt.Sprint("n", rng.IntN(4)), fmt.Sprintf("s%04d", rng.IntN(700))}
			i, found := slices.BinarySearchFunc(v.want, after, compareKeys)
			if found {
				i++
			}
			want := v.want[i:min(i+3, len(v.want))]
			got = nil
			v.m.TopicsBehind(after.tenant, after.namespace, after.name, func(topic *Topic) bool {
				got = append(got, keyOf(topic))
				return len(got) < 3
			})
			if !slices.Equal(got, want) {
				t.Errorf("behind %v are %v, want %v", after, got, want)
			}
		}
	}
}

func compareKeys(a, b topicKey) int {
	return compareToKey(&Topic{Tenant: a.tenant, Namespace: a.namespace, Name: a.name}, b)
}

// BenchmarkPutTopicAmongMany is one creation in a cluster of many topics, and the first page of a listing behind it.
func BenchmarkPutTopicAmongMany(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			build := NewBuilder(NewImage(nil))
			for i := range n {
				put(b, build, i)
			}
			m := build.Build(1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				next := NewBuilder(m)
				put(b, next, n+i)
				left := 100
				next.Build(2).TopicsOf("default", func(*Topic) bool { left--; return left > 0 })
			}
		})
	}
}
