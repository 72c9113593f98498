package recordbatch

import (
	"fmt"
	"testing"
)

// Batches of about the size that a producer with linger fills.
var benchShapes = []struct {
	name        string
	count, size int
}{
	{"records_1KiB", 60, 1024},
	{"records_100B", 600, 100},
}

func BenchmarkCRC(b *testing.B) {
	batch := build(b, BuilderOptions{}, sized(60, 1024))
	b.ReportAllocs()
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if err := CheckCRC(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseHeader(b *testing.B) {
	batch := build(b, BuilderOptions{}, sized(1, 100))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHeader(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateUncompressed(b *testing.B) {
	for _, shape := range benchShapes {
		b.Run(shape.name, func(b *testing.B) {
			batch := build(b, BuilderOptions{}, sized(shape.count, shape.size))
			o := ValidateOptions{MaxBatchBytes: 1 << 20, BoundTimestamps: true, Now: 1_700_000_001_000, TimestampBeforeMax: 1 << 60, TimestampAfterMax: 3600_000}
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if _, err := Validate(batch, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWalk is the framing check alone, without the checksum.
func BenchmarkWalk(b *testing.B) {
	for _, shape := range benchShapes {
		b.Run(shape.name, func(b *testing.B) {
			batch := build(b, BuilderOptions{}, sized(shape.count, shape.size))
			h, err := ParseHeader(batch)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			n := 0
			for b.Loop() {
				w := walk{h: &h, low: 0, high: 1 << 62}
				if err := w.run(batch[HeaderSize:]); err != nil {
					b.Fatal(err)
				}
				n += shape.count
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}

func BenchmarkIterate(b *testing.B) {
	for _, shape := range benchShapes {
		b.Run(shape.name, func(b *testing.B) {
			batch := build(b, BuilderOptions{}, sized(shape.count, shape.size))
			h, err := ParseHeader(batch)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			n := 0
			for b.Loop() {
				it := Records(h, batch[HeaderSize:])
				for it.Next() {
					n++
				}
				if it.Err() != nil {
					b.Fatal(it.Err())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}

func BenchmarkDecompress(b *testing.B) {
	batch := build(b, BuilderOptions{}, sized(600, 100))
	for _, codec := range allCodecs[1:] {
		b.Run(codec.String(), func(b *testing.B) {
			src, err := Compress(nil, codec, batch)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 0, 1<<20)
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if _, err := Decompress(dst, codec, src, DefaultMaxDecodedBytes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompress(b *testing.B) {
	batch := build(b, BuilderOptions{}, sized(600, 100))
	for _, codec := range allCodecs[1:] {
		b.Run(codec.String(), func(b *testing.B) {
			dst := make([]byte, 0, 1<<20)
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if _, err := Compress(dst, codec, batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecordReader(b *testing.B) {
	for _, codec := range allCodecs {
		b.Run(fmt.Sprint(codec), func(b *testing.B) {
			batch := build(b, BuilderOptions{Codec: codec}, sized(10_000, 100))
			b.ReportAllocs()
			b.SetBytes(1_000_000)
			for b.Loop() {
				r, err := NewRecordReader(batch, DefaultMaxDecodedBytes)
				if err != nil {
					b.Fatal(err)
				}
				for r.Next() {
				}
				if r.Err() != nil {
					b.Fatal(r.Err())
				}
				r.Close()
			}
		})
	}
}
