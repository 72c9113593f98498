package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// sampleIndex makes an index of n batches of 100 bytes, an entry for every fourth.
func sampleIndex(n int) (*index, indexHead) {
	x := newIndex()
	prefix := make([]byte, headPrefix)
	for i := range int64(n) {
		prefix[3] = byte(i)
		h := recordbatch.Header{BaseOffset: 50 + i*2, MaxTimestamp: 1000 + i%5}
		x.add(i*2, segmentHeaderBytes+i*100, prefix, &h, 400)
	}
	head := indexHead{
		identity: 7, base: 50, end: 50 + ids.Offset(n)*2, fileBytes: segmentHeaderBytes + int64(n)*100, largest: x.largest, first: 1000,
		block: x.block, total: x.total,
	}
	if n > 0 {
		head.epochs = epochTable{{1, 50}, {4, 51}}
	} else {
		head.end, head.first = 50, noTimestamp
	}
	return x, head
}

func TestIndexFileRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 100} {
		x, head := sampleIndex(n)
		b := appendIndexFile([]byte("xx"), head, x.view())[2:]
		got, y, err := parseIndexFile(b)
		if err != nil {
			t.Fatalf("%d batches: %v", n, err)
		}
		head.entries, head.entryCRC = got.entries, got.entryCRC
		if diff := cmp.Diff(head, got, cmp.AllowUnexported(indexHead{}, epochStart{})); diff != "" {
			t.Errorf("%d batches (-want +got):\n%s", n, diff)
		}
		if diff := cmp.Diff(x.view(), y.view(), cmp.AllowUnexported(entry{})); diff != "" {
			t.Errorf("%d batches (-want +got):\n%s", n, diff)
		}
		if y.total != x.total || y.block != x.block || y.last != x.last || y.largest != x.largest {
			t.Errorf("%d batches: running state differs", n)
		}
		for cut := range b {
			if _, _, err := parseIndexFile(b[:cut]); !errors.Is(err, errIndex) {
				t.Fatalf("cut to %d of %d bytes: %v", cut, len(b), err)
			}
		}
	}
}

func TestIndexLookUp(t *testing.T) {
	x, _ := sampleIndex(10) // entries at batches 0, 4, 8
	list := x.view()
	if len(list) != 3 {
		t.Fatalf("%d entries", len(list))
	}
	for rel, want := range map[int64]int{0: 0, 1: 0, 7: 0, 8: 1, 15: 1, 16: 2, 99: 2, -1: -1} {
		if got := floorOffset(list, rel); got != want {
			t.Errorf("floorOffset(%d) = %d, want %d", rel, got, want)
		}
	}
	for pos, want := range map[int64]int{0: -1, segmentHeaderBytes: 0, segmentHeaderBytes + 399: 0, segmentHeaderBytes + 400: 1, 1 << 30: 2} {
		if got := floorPosition(list, pos); got != want {
			t.Errorf("floorPosition(%d) = %d, want %d", pos, got, want)
		}
	}
	// Timestamps are 1000 to 1004, over and over: 1004 comes first in batch 4.
	for ts, want := range map[int64]int{0: 0, 1000: 0, 1003: 0, 1004: 1, 1005: 2} {
		if got := floorTime(list, ts); got != want {
			t.Errorf("floorTime(%d) = %d, want %d", ts, got, want)
		}
	}
	if floorOffset(nil, 5) != -1 || floorTime(nil, 5) != -1 {
		t.Error("an empty index has a block")
	}
}

func TestIndexGrowsUnderReaders(t *testing.T) {
	x := newIndex()
	old := x.view()
	prefix := make([]byte, headPrefix)
	for i := range int64(1000) {
		h := recordbatch.Header{BaseOffset: i}
		x.add(i, segmentHeaderBytes+i*100, prefix, &h, 1)
		if len(old) > 0 && old[0].pos != segmentHeaderBytes {
			t.Fatal("an entry has changed")
		}
		if i == 5 {
			old = x.view()
		}
	}
	if len(old) != 6 || len(x.view()) != 1000 || x.memory() < 1000*entryMemory {
		t.Errorf("%d and %d entries", len(old), len(x.view()))
	}
}

func FuzzIndexFile(f *testing.F) {
	for _, n := range []int{0, 1, 9} {
		x, head := sampleIndex(n)
		f.Add(appendIndexFile(nil, head, x.view()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= indexHeadBytes { // or the checksums would stop nearly every input
			need := indexHeadBytes + int(b[15])*indexEpochBytes
			if need <= len(b) {
				binary.BigEndian.PutUint32(b[72:], crcOf(b[need:]))
				binary.BigEndian.PutUint32(b[76:], headCRC(b[:need]))
			}
		}
		head, x, err := parseIndexFile(b)
		if err != nil {
			return
		}
		if again := appendIndexFile(nil, head, x.view()); string(again) != string(b) {
			t.Fatal("encodes differently")
		}
	})
}

func TestSegmentHeader(t *testing.T) {
	for _, h := range []segmentHeader{
		{base: 0, created: 5}, {base: 1 << 40, created: 1 << 50}, {base: 10, created: 1, compacted: true, through: 30, clean: 20},
	} {
		b := appendSegmentHeader(nil, h)
		if len(b) != segmentHeaderBytes {
			t.Fatalf("%d bytes", len(b))
		}
		got, _, err := parseSegmentHeader(b)
		if err != nil || got != h {
			t.Errorf("%+v, %v; want %+v", got, err, h)
		}
		for at := range b {
			bad := append([]byte(nil), b...)
			bad[at] ^= 4
			if _, _, err := parseSegmentHeader(bad); err == nil {
				t.Errorf("flip at byte %d passes", at)
			}
		}
	}
	if _, _, err := parseSegmentHeader(make([]byte, 100)); !errors.Is(err, errBlankHeader) {
		t.Errorf("a blank one: %v", err)
	}
	if _, _, err := parseSegmentHeader(nil); !errors.Is(err, errBlankHeader) {
		t.Errorf("none: %v", err)
	}
	if off, ok := parseOffsetName("00000000000000000042.log", segmentSuffix); !ok || off != 42 {
		t.Error(off, ok)
	}
	for _, name := range []string{"42.log", "0000000000000000004x.log", "-0000000000000000042.log", "00000000000000000042.index", "99999999999999999999.log"} {
		if _, ok := parseOffsetName(name, segmentSuffix); ok {
			t.Errorf("%q is a segment", name)
		}
	}
}
