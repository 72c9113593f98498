//go:build !race

package kafkaproto

// poolSlack is what sync.Pool adds to allocations of a request: nothing.
const poolSlack = 0
