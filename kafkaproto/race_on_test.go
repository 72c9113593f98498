//go:build race

package kafkaproto

// poolSlack is what sync.Pool adds to allocations of a request: under the race detector it drops objects at random.
const poolSlack = 12
