package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// CubinsBucket says of each tenant's cubins which are stored: one key a build id, see CubinKey, whose value is a CubinRecord.
const CubinsBucket = "WL_CUBINS"

// CubinSession begins the session of a cubin; its build id follows.
const CubinSession = "cubin:"

// MaxCubinBytes bounds the body of a part of KindCubin, whatever limits say.
const MaxCubinBytes = 64 << 20

// CubinKey is the key of a build id in CubinsBucket: <tenant>.<build id>, or <tenant>.x<hash> when the id is not plain hex.
func CubinKey(tenant, buildID string) string {
	if len(buildID) == 0 || len(buildID) > 64 || strings.Trim(buildID, "0123456789abcdef") != "" {
		return tenant + ".x" + SessionToken(buildID)
	}
	return tenant + "." + buildID
}

// CubinFilter selects every key of a tenant in CubinsBucket.
func CubinFilter(tenant string) string { return tenant + ".>" }

// CubinRecord is what is known of one build id of one tenant. The zero value says nothing: neither stored nor declined.
type CubinRecord struct {
	// Whole says that the cubin is stored as the driver loads it, not stripped.
	Whole     bool
	SizeBytes uint64 // of the upload
	Hash      string // sha256-<32 hex> of the upload
	// KeptUntilDay is the last day, in days since the epoch, on which its lines are there.
	KeptUntilDay int32
	// Declined says that what was offered under this build id is not a cubin. The other fields are empty then.
	Declined bool
}

// cubinRecordVersion begins every record. Readers take what they know and leave what follows.
const cubinRecordVersion = 1

// maxCubinHash bounds Hash when it is read.
const maxCubinHash = 128

// ErrCubinRecord is returned, wrapped, for bytes that are not a CubinRecord.
var ErrCubinRecord = errors.New("not a record of a cubin (was it written by a newer warpline?)")

// Append appends the record as it stands in the bucket.
func (r *CubinRecord) Append(dst []byte) []byte {
	var flags byte
	if r.Whole {
		flags |= 1
	}
	if r.Declined {
		flags |= 2
	}
	dst = append(dst, cubinRecordVersion, flags)
	dst = binary.AppendUvarint(dst, r.SizeBytes)
	dst = binary.AppendVarint(dst, int64(r.KeptUntilDay))
	dst = binary.AppendUvarint(dst, uint64(len(r.Hash)))
	return append(dst, r.Hash...)
}

// Parse reads what Append wrote. The record is as it was when it fails.
func (r *CubinRecord) Parse(b []byte) error {
	if len(b) < 2 || b[0] != cubinRecordVersion {
		return ErrCubinRecord
	}
	out := CubinRecord{Whole: b[1]&1 != 0, Declined: b[1]&2 != 0}
	b = b[2:]
	size, n := binary.Uvarint(b)
	if n <= 0 {
		return fmt.Errorf("size: %w", ErrCubinRecord)
	}
	b = b[n:]
	day, n := binary.Varint(b)
	if n <= 0 || day != int64(int32(day)) {
		return fmt.Errorf("day: %w", ErrCubinRecord)
	}
	b = b[n:]
	length, n := binary.Uvarint(b)
	if n <= 0 || length > maxCubinHash || length > uint64(len(b)-n) {
		return fmt.Errorf("hash: %w", ErrCubinRecord)
	}
	out.SizeBytes, out.KeptUntilDay, out.Hash = size, int32(day), string(b[n:n+int(length)])
	*r = out
	return nil
}
