package rows

import (
	"strings"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// PlausibleEpoch is 2001-09-09: 10^18 ns. AMD activity records and isa_source_map carry clocks that start at boot.
const PlausibleEpoch = int64(1e18)

// MaxTextBytes bounds client text that is part of the state: host names, applications, scope paths.
const MaxTextBytes = 1024

// Clip cuts text to maxTextBytes at a rune's border and marks the cut.
func Clip(s string) string {
	if len(s) <= MaxTextBytes {
		return s
	}
	return strings.ToValidUTF8(s[:MaxTextBytes], "") + "…"
}

// ClipBytes is clip for text that is not kept.
func ClipBytes(b []byte) []byte {
	if len(b) <= MaxTextBytes {
		return b
	}
	return []byte(Clip(string(b)))
}

// OrUnknown is a time, or what stands for "no time" in columns that keep the earliest.
func OrUnknown(ns int64) int64 {
	if ns <= 0 {
		return table.UnknownTime
	}
	return ns
}

// Flag is a bool as its column stores it.
func Flag(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

// ClampU32 is the nearest number that fits the column.
func ClampU32(v int64) uint32 { return uint32(min(max(v, 0), 1<<32-1)) }

// ClampI32 is the nearest number that fits the column.
func ClampI32(v int64) int32 { return int32(min(max(v, -1<<31), 1<<31-1)) }

// NotNegative is a number, or 0 for one below it.
func NotNegative(v int64) uint64 { return uint64(max(v, 0)) }

const mib = 1 << 20

// FromMiB is a size in bytes. One that does not fit the column becomes the largest that does; it does not wrap.
func FromMiB(n uint64) uint64 { return min(n, (1<<64-1)/mib) * mib }

// DayOf returns the day of a time.
func DayOf(ns int64) int32 { return table.DayOf(ns) }

// BucketNS is how long a bucket of rollups is: a minute.
const BucketNS = int64(60e9)

// BucketOf returns the start of the minute of a time, which is never negative.
func BucketOf(ns int64) int64 { return ns - ns%BucketNS }

// NanosPerDay is a day.
const NanosPerDay = int64(24 * time.Hour)

// RawDayPartition is the ClickHouse partition of raw rows received at a time: its day and retention class.
func RawDayPartition(receivedAt int64, days uint16) table.DayPartition {
	return table.DayPartition{Day: table.DayOf(receivedAt), RetentionDays: days}
}

// FactDayPartition is the same for rollups and facts: the first day of the month.
func FactDayPartition(receivedAt int64, days uint16) table.DayPartition {
	return table.DayPartition{Day: table.MonthOf(table.DayOf(receivedAt)), RetentionDays: days}
}

// FactDays is the retention class of facts that are needed to understand raw rows. They are written with the first such row and must
// outlive the last one, in a session that may go on for as long as raw rows are kept.
func FactDays(rawDays, rollupDays uint16) uint16 {
	return uint16(min(max(int(rollupDays), 2*int(rawDays)), 1<<16-1))
}
