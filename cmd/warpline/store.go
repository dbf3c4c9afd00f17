package main

import (
	"fmt"
	"os"

	"github.com/warpline/warpline/broker"
)

// storeShare is how much of the free space the embedded NATS may take: the rest is for ClickHouse, which holds the same for longer.
const storeShare = 0.4

// fitStore scales the layout to what max or the volume of dir allows, and returns the bound for the server as a whole.
func fitStore(dir string, l broker.Layout, max int64) (broker.Layout, int64, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return l, 0, fmt.Errorf("nats folder: %w", err)
	}
	free, err := freeBytes(dir)
	if err != nil {
		return l, 0, err
	}
	budget := max
	if budget == 0 {
		// What it has already written counts as free, or every restart would shrink the streams.
		budget = int64(storeShare * float64(free+treeBytes(dir)))
	}
	const least = 256 << 20
	if budget < least {
		return l, 0, fmt.Errorf("%s: %s free is too little for the streams: make room, or name a folder on another disk with --data", dir, size(free&^(1<<20-1)))
	}
	// 4 disk buckets and 3 object stores beside the two streams, see broker.Open.
	const buckets = 7
	total := l.IngestMaxBytes + l.RowsMaxBytes + buckets*l.BucketMaxBytes
	if total > budget {
		f := float64(budget) / float64(total)
		scale := func(n int64) int64 { return int64(f*float64(n)) &^ (1<<20 - 1) }
		l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes = scale(l.IngestMaxBytes), scale(l.RowsMaxBytes), scale(l.BucketMaxBytes)
		total = l.IngestMaxBytes + l.RowsMaxBytes + buckets*l.BucketMaxBytes
	}
	return l, total + 64<<20, nil
}
