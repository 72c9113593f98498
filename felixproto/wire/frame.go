package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

const (
	// HeaderSize is the number of bytes before every payload.
	HeaderSize = 12
	// Magic is the first four bytes of every frame, "FLX1".
	Magic uint32 = 0x464C5831
	// Version is the only version of frames.
	Version uint16 = 1
	// DefaultMaxFrameBytes is the payload limit of both sides unless configured otherwise.
	DefaultMaxFrameBytes = 16 << 20
	// PreAuthMaxFrameBytes is the payload limit of a stream that has not authenticated.
	PreAuthMaxFrameBytes = 64 << 10

	// firstRead is how much is made room for before any byte of a payload has arrived.
	firstRead = 4 << 10
)

// Header is the head of a frame. On the wire: u32 magic, u16 version, u16 flags, u32 length.
type Header struct {
	// Flags says what the payload is.
	Flags Flags
	// Length is the size of the payload in bytes.
	Length uint32
}

// AppendHeader appends the 12 bytes of h.
func AppendHeader(dst []byte, h Header) []byte {
	dst = binary.BigEndian.AppendUint32(dst, Magic)
	dst = binary.BigEndian.AppendUint16(dst, Version)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Flags))
	return binary.BigEndian.AppendUint32(dst, h.Length)
}

// ParseHeader reads the header at the start of b and looks at no byte behind it.
//
// Errors are DecodeErrors: FaultShortHeader, FaultMagic and FaultVersion (AbortStream); FaultTooLarge if the length is above maxBytes and
// FaultFlags if the flags make no layout (EndStream). With the last two the header is returned too.
func ParseHeader(b []byte, maxBytes int) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, &DecodeError{Fault: FaultShortHeader, Verdict: AbortStream}
	}
	if binary.BigEndian.Uint32(b) != Magic {
		return Header{}, &DecodeError{Fault: FaultMagic, Verdict: AbortStream}
	}
	if binary.BigEndian.Uint16(b[4:]) != Version {
		return Header{}, &DecodeError{Fault: FaultVersion, Verdict: AbortStream}
	}
	h := Header{Flags: Flags(binary.BigEndian.Uint16(b[6:])), Length: binary.BigEndian.Uint32(b[8:])}
	if int64(h.Length) > int64(maxBytes) {
		return h, &DecodeError{Fault: FaultTooLarge, Verdict: EndStream}
	}
	if _, legal := h.Flags.Layout(); !legal {
		return h, &DecodeError{Fault: FaultFlags, Verdict: EndStream}
	}
	return h, nil
}

// BeginFrame appends a header whose length is not known yet. The payload is appended behind it, then EndFrame is called.
func BeginFrame(dst []byte, flags Flags) []byte { return AppendHeader(dst, Header{Flags: flags}) }

// EndFrame writes the length of a frame that BeginFrame began; frame is all of it, from its first byte on. A payload that does not fit
// 32 bits is the caller's mistake: no limit in use comes near.
func EndFrame(frame []byte) {
	if n := len(frame) - HeaderSize; n >= 0 && int64(n) <= math.MaxUint32 {
		binary.BigEndian.PutUint32(frame[8:], uint32(n))
	}
}

// ReadFrame reads one frame. The payload is put into buf's capacity, or into a new buffer that grows as bytes arrive, never by what the
// header claims; give the payload back as the next call's buf to reuse it. The caller owns it. Nothing is read behind the frame.
//
// Errors: io.EOF if the stream ended between frames; those of ParseHeader, before a byte of the payload is read; a DecodeError with
// FaultTruncated (AbortStream) if the stream ended inside the payload; whatever else r fails with, as it is.
func ReadFrame(r io.Reader, buf []byte, maxBytes int) (h Header, payload []byte, err error) {
	if cap(buf) < HeaderSize {
		buf = make([]byte, 0, firstRead)
	}
	head := buf[:HeaderSize]
	if _, err := io.ReadFull(r, head); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = &DecodeError{Fault: FaultShortHeader, Verdict: AbortStream}
		}
		return Header{}, nil, err
	}
	if h, err = ParseHeader(head, maxBytes); err != nil {
		return h, nil, err
	}
	payload = buf[:0]
	for n := int(h.Length); len(payload) < n; {
		if len(payload) == cap(payload) {
			payload = append(make([]byte, 0, min(n, max(2*cap(payload), firstRead))), payload...)
		}
		got, err := io.ReadFull(r, payload[len(payload):min(n, cap(payload))])
		payload = payload[:len(payload)+got]
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = &DecodeError{Fault: FaultTruncated, Verdict: AbortStream}
			}
			return h, nil, err
		}
	}
	return h, payload, nil
}
