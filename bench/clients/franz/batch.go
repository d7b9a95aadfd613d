package main

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Bytes of a record batch before its first record, and where its fields are.
const (
	batchHeaderBytes  = 61
	batchLengthAt     = 8
	batchChecksumAt   = 17
	batchLastDeltaAt  = 23
	batchCountAt      = 57
	batchUncountedLen = 12 // offset and length themselves
)

// encodeBatch appends a version 2 record batch of n records that all hold the
// value: not compressed, not idempotent.
func encodeBatch(dst []byte, value []byte, n int) []byte {
	be := binary.BigEndian
	start := len(dst)
	now := uint64(time.Now().UnixMilli())
	dst = be.AppendUint64(dst, 0)           // base offset
	dst = be.AppendUint32(dst, 0)           // length, set below
	dst = be.AppendUint32(dst, ^uint32(0))  // leader epoch: unknown
	dst = append(dst, 2)                    // magic
	dst = be.AppendUint32(dst, 0)           // checksum, set below
	dst = be.AppendUint16(dst, 0)           // attributes
	dst = be.AppendUint32(dst, uint32(n-1)) // last offset delta
	dst = be.AppendUint64(dst, now)         // base timestamp
	dst = be.AppendUint64(dst, now)         // max timestamp
	dst = be.AppendUint64(dst, ^uint64(0))  // no producer id
	dst = be.AppendUint16(dst, ^uint16(0))  // no producer epoch
	dst = be.AppendUint32(dst, ^uint32(0))  // no sequence
	dst = be.AppendUint32(dst, uint32(n))   // records
	for i := range n {
		var room [32]byte
		head := append(room[:0], 0)                // attributes
		head = binary.AppendVarint(head, 0)        // timestamp delta
		head = binary.AppendVarint(head, int64(i)) // offset delta
		head = binary.AppendVarint(head, -1)       // no key
		head = binary.AppendVarint(head, int64(len(value)))
		dst = binary.AppendVarint(dst, int64(len(head)+len(value)+1))
		dst = append(dst, head...)
		dst = append(dst, value...)
		dst = append(dst, 0) // no headers
	}
	batch := dst[start:]
	be.PutUint32(batch[batchLengthAt:], uint32(len(batch)-batchUncountedLen))
	be.PutUint32(batch[batchChecksumAt:], crc32.Checksum(batch[batchChecksumAt+4:], castagnoli))
	return dst
}
