package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
)

// sealName is the file that a clean stop leaves: the checksum of the whole database at one transaction. raft-boltdb protects neither
// its pages nor its choice between two root pages, so a flipped bit can hide whole entries; entries' own checksums cannot tell.
const sealName = "raft.seal"

// sealMagic begins the file: magic, transaction id (8 bytes), checksum of the database (4), checksum of all before (4); big-endian.
const sealMagic = "FLXSEAL1"

const sealBytes = len(sealMagic) + 8 + 4 + 4

// writeSeal seals the database of a closed store. It needs no sync: a seal that is torn or missing only means that nothing is checked.
func writeSeal(dir string) error {
	db, err := os.ReadFile(filepath.Join(dir, dbName))
	if err != nil {
		return fmt.Errorf("raftstore: seal: %w", err)
	}
	b := binary.BigEndian.AppendUint64([]byte(sealMagic), lastTransaction(db))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(db, castagnoli))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if err := os.WriteFile(filepath.Join(dir, sealName), b, 0o600); err != nil {
		return fmt.Errorf("raftstore: seal: %w", err)
	}
	return nil
}

// checkSeal compares the database with the seal, if there is one and nothing was written since: every transaction raises the id, so
// after a crash the database's is above the seal's. It runs before the database is opened.
func checkSeal(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, sealName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("raftstore: seal: %w", err)
	case len(b) != sealBytes || string(b[:len(sealMagic)]) != sealMagic ||
		crc32.Checksum(b[:sealBytes-4], castagnoli) != binary.BigEndian.Uint32(b[sealBytes-4:]):
		return nil
	}
	path := filepath.Join(dir, dbName)
	db, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("raftstore: %w", err)
	}
	b = b[len(sealMagic):]
	if lastTransaction(db) > binary.BigEndian.Uint64(b) {
		return nil
	}
	if got, want := crc32.Checksum(db, castagnoli), binary.BigEndian.Uint32(b[8:]); got != want {
		return fmt.Errorf("raftstore: %s: %w: its checksum is %08x, at the clean stop it was %08x", path, errDamaged, got, want)
	}
	return nil
}

// lastTransaction is the highest transaction id of the database's two root pages that are whole, 0 if neither is. The layout is
// bbolt's: a page header of 16 bytes, then magic, version, page size, flags (4 bytes each), five numbers of 8 bytes of which the last is
// the transaction id, and an FNV-1a checksum of these 56 bytes; in the byte order of the machine.
func lastTransaction(db []byte) uint64 {
	const (
		pageHeader = 16
		sumAt      = 56
		idAt       = sumAt - 8
		magic      = 0xED0CDAED
	)
	var last uint64
	for _, page := range []int{0, os.Getpagesize()} {
		if len(db) < page+pageHeader+sumAt+8 {
			continue
		}
		m := db[page+pageHeader:]
		h := fnv.New64a()
		_, _ = h.Write(m[:sumAt])
		if binary.NativeEndian.Uint32(m) == magic && binary.NativeEndian.Uint64(m[sumAt:]) == h.Sum64() {
			last = max(last, binary.NativeEndian.Uint64(m[idAt:]))
		}
	}
	return last
}
