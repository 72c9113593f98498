package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

// testArsenal is one that knows every API that the library knows.
func testArsenal() *arsenal {
	a := &arsenal{topic: "t", opened: "u"}
	for key := range int16(kmsg.MaxKey) {
		if req := kmsg.RequestForKey(key); req != nil {
			a.served = append(a.served, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: req.MaxVersion()})
		}
	}
	a.prepare()
	return a
}

func TestFramesRepeatAndCoverAllKinds(t *testing.T) {
	a := testArsenal()
	draw := func(seed uint64) ([]string, [][]byte) {
		random := rand.New(rand.NewPCG(seed, 0))
		var names []string
		var frames [][]byte
		for range 2000 {
			name, frame := a.frame(random)
			names, frames = append(names, name), append(frames, frame)
		}
		return names, frames
	}
	names, frames := draw(1)
	again, framesAgain := draw(1)
	kinds := map[string]int{}
	for i, name := range names {
		kinds[name]++
		if again[i] != name || !bytes.Equal(framesAgain[i], frames[i]) {
			t.Fatalf("frame %d of the same seed differs: %s and %s", i, name, again[i])
		}
		// All but the lies about the size arrive whole: what is wrong with them is inside.
		if name != "size" && int(binary.BigEndian.Uint32(frames[i])) != len(frames[i])-4 {
			t.Errorf("%s: a frame of %d bytes says %d", name, len(frames[i])-4, binary.BigEndian.Uint32(frames[i]))
		}
	}
	for _, kind := range []string{"size", "garbage", "malformed", "count", "tags", "crc", "bomb"} {
		if kinds[kind] < 100 {
			t.Errorf("%d of 2000 frames are %s", kinds[kind], kind)
		}
	}
}

func TestBombsAreSmallAndDecodeToMuch(t *testing.T) {
	a := testArsenal()
	if len(a.bombs) != 8 {
		t.Fatalf("%d bombs, want one a codec and topic", len(a.bombs))
	}
	for _, frame := range a.bombs {
		var req kmsg.ProduceRequest
		req.Version = 9
		id := "hostile"
		body := frame[4+len(raw.AppendHeader(nil, 0, 9, 7, &id, true)):]
		if err := req.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		batches, err := raw.ParseBatches(req.Topics[0].Partitions[0].Records)
		if err != nil || len(batches) != 1 || !batches[0].CRCValid {
			t.Fatalf("%d batches, %v", len(batches), err)
		}
		records, err := batches[0].Records()
		if err != nil || len(records) != 1 || len(records[0].Value) != bombBytes {
			t.Errorf("%v: %d records, %v", batches[0].Codec(), len(records), err)
		}
		if len(frame) > 1<<20 {
			t.Errorf("%v: %d bytes, more than a topic takes", batches[0].Codec(), len(frame))
		}
	}
}

func TestBeginningsNeverEnd(t *testing.T) {
	a := testArsenal()
	random := rand.New(rand.NewPCG(1, 0))
	for range 1000 {
		b := a.beginning(random)
		if len(b) == 0 || len(b) >= 4 && int(binary.BigEndian.Uint32(b)) <= len(b)-4 {
			t.Fatalf("% x is nothing, or whole", b)
		}
	}
}

// TestAttackersNeedNoAnswer lets every role act against a server that reads and says nothing, and against one that closes at once.
func TestAttackersNeedNoAnswer(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"silent": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"closes": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer func() { _ = c.Close() }()
						serve(c)
					}()
				}
			}()
			arms := testArsenal()
			for r := range roleFrames + 1 {
				report := crowdReport{Actions: map[string]int64{}}
				m := &attacker{
					o: crowdOptions{Addr: l.Addr().String(), Topic: "t"}, arsenal: arms, random: rand.New(rand.NewPCG(1, uint64(r))), report: &report,
					chosen: true, role: r,
				}
				for range 2 * silentTicks {
					if _, err := m.act(time.Now().Add(2 * time.Millisecond)); err != nil {
						t.Errorf("role %d: %v", r, err)
					}
				}
				m.close()
				if name == "closes" && r == roleFrames && report.Closed == 0 {
					t.Error("no closed connection was noticed")
				}
			}
		})
	}
}
