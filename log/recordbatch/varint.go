package recordbatch

// Varints here are zigzag base-128, least significant group first. An encoding that is longer than it need be, or than its type
// allows, is refused: what parses re-encodes to the same bytes.

// shortVarint reads the unsigned form at p[pos:] if it is one or two bytes long, as nearly all are; next is 0 if it is not, or not
// canonical, or too near the end of p to tell. It is small enough to be inlined.
func shortVarint(p []byte, pos int) (u uint32, next int) {
	if uint(pos+1) < uint(len(p)) {
		u, next = uint32(p[pos]), pos+1
		if u >= 0x80 {
			d := uint32(p[next])
			u += d<<7 - 0x80
			next++
			if d-1 >= 0x7f {
				next = 0
			}
		}
	}
	return u, next
}

// uvarint32 reads the unsigned form at p[pos:] and returns the position behind it, or -1 if it is cut short or not canonical.
func uvarint32(p []byte, pos int) (u uint32, next int) {
	for shift := 0; shift < 35; shift += 7 {
		if uint(pos) >= uint(len(p)) {
			return 0, -1
		}
		c := p[pos]
		pos++
		if c < 0x80 {
			if shift > 0 && c == 0 || shift == 28 && c > 0x0f {
				return 0, -1
			}
			return u | uint32(c)<<shift, pos
		}
		u |= uint32(c&0x7f) << shift
	}
	return 0, -1
}

// uvarint64 is uvarint32 for 64 bits.
func uvarint64(p []byte, pos int) (u uint64, next int) {
	for shift := 0; shift < 70; shift += 7 {
		if uint(pos) >= uint(len(p)) {
			return 0, -1
		}
		c := p[pos]
		pos++
		if c < 0x80 {
			if shift > 0 && c == 0 || shift == 63 && c > 1 {
				return 0, -1
			}
			return u | uint64(c)<<shift, pos
		}
		u |= uint64(c&0x7f) << shift
	}
	return 0, -1
}

func unzigzag32(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }
func unzigzag64(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// appendVarint appends the zigzag form of v. The 32-bit fields of the format use the same bytes for the values they can hold.
func appendVarint(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintSize is the number of bytes that appendVarint appends.
func varintSize(v int64) int {
	u, n := uint64(v)<<1^uint64(v>>63), 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
