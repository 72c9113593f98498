package kafkaproto

import (
	"encoding/binary"
	"sync"

	"github.com/felixlog/felix/broker"
)

// response is one answer, ready to be written: encoded bytes, with stored bytes spliced in where fetch has some. The
// stored bytes are never copied.
type response struct {
	head   []byte         // begins with the frame's size
	cuts   []int          // chunk i goes before head[cuts[i]:]; ascending
	chunks []broker.Chunk // released after the write
	stored int            // bytes in chunks
	charge int64          // what the answers budget gets back after the write
}

var responses = sync.Pool{New: func() any { return &response{head: make([]byte, 0, smallResponse)} }}

const (
	smallResponse = 512
	// keptResponse is the largest head that goes back to the pool, so that one huge listing does not stay in memory.
	keptResponse = 64 << 10
)

func newResponse() *response {
	r := responses.Get().(*response)
	return r
}

// begin writes the frame size's place and the response header: the correlation id, and an empty tag section where the API's
// version is flexible. ApiVersions has the short header in all versions, since its reader does not know them yet.
func (r *response) begin(correlation int32, a *api, version int16) {
	r.head = append(r.head, 0, 0, 0, 0)
	r.head = binary.BigEndian.AppendUint32(r.head, uint32(correlation))
	if a.isFlexible(version) && a.key != keyAPIVersions {
		r.head = append(r.head, 0)
	}
}

// splice puts chunks at the present end of the encoded bytes.
func (r *response) splice(chunks []broker.Chunk) {
	for _, c := range chunks {
		r.cuts = append(r.cuts, len(r.head))
		r.chunks = append(r.chunks, c)
		r.stored += len(c.Data)
	}
}

// size is the whole length on the wire.
func (r *response) size() int { return len(r.head) + r.stored }

// seal writes the frame's size.
func (r *response) seal() {
	binary.BigEndian.PutUint32(r.head, uint32(r.size()-4))
}

// appendTo adds the response's pieces in wire order to vecs.
func (r *response) appendTo(vecs [][]byte) [][]byte {
	from := 0
	for i, c := range r.chunks {
		if at := r.cuts[i]; at > from {
			vecs = append(vecs, r.head[from:at])
			from = at
		}
		if len(c.Data) > 0 {
			vecs = append(vecs, c.Data)
		}
	}
	if from < len(r.head) {
		vecs = append(vecs, r.head[from:])
	}
	return vecs
}

// release gives everything back after the write, or instead of it.
func (r *response) release(answers *budget) {
	for i := range r.chunks {
		r.chunks[i].Ref.Release()
	}
	clear(r.chunks)
	answers.put(r.charge)
	if cap(r.head) > keptResponse || cap(r.chunks) > keptChunks {
		return
	}
	r.head, r.cuts, r.chunks = r.head[:0], r.cuts[:0], r.chunks[:0]
	r.stored, r.charge = 0, 0
	responses.Put(r)
}

const keptChunks = 1024
