package service

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/warpline/warpline/broker"
)

// storeShare is how much of the free space the embedded NATS may take: the rest is for ClickHouse, which holds the same for longer.
const storeShare = 0.4

// leastStore is the room that the streams need to be of any use.
const leastStore = 256 << 20

// fitStore scales the layout to what max or the volume of dir allows, and returns the bound for the server as a whole. The layout is for
// what has to be made: streams that are there keep their size (see broker.Open), and the bound has room for both. A disk that is too full
// to work is no reason not to start: uploads are refused until there is room (minFreeDisk), and somebody has to say so.
func fitStore(dir string, l broker.Layout, max int64) (broker.Layout, int64, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return l, 0, fmt.Errorf("nats folder: %w", err)
	}
	budget := max
	if budget == 0 {
		free, err := freeBytes(dir)
		if err != nil {
			return l, 0, err
		}
		// What it has already written counts as free, or every restart would shrink what is made anew.
		budget = int64(storeShare * float64(free+treeBytes(dir)))
		if budget < leastStore {
			budget = leastStore
		}
	}
	if budget < leastStore {
		return l, 0, fmt.Errorf("--store-max: %s is too little for the streams: give %s at least, or leave it out and name a folder on another "+
			"disk with --data",
			Size(budget), Size(leastStore))
	}
	if total := l.MaxBytes(); total > budget {
		f := float64(budget) / float64(total)
		scale := func(n int64) int64 { return int64(f*float64(n)) &^ (1<<20 - 1) }
		l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes = scale(l.IngestMaxBytes), scale(l.RowsMaxBytes), scale(l.BucketMaxBytes)
	}
	return l, l.MaxBytes() + reservedBytes(dir) + 16<<20, nil
}

// reservedBytes adds up what the streams in the folder of an embedded NATS may take. The server counts that against its bound, and would
// make nothing new in a bound that is below it.
func reservedBytes(dir string) (total int64) {
	files, _ := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*", "meta.inf"))
	for _, f := range files {
		var have struct {
			MaxBytes int64 `json:"max_bytes"`
		}
		if b, err := os.ReadFile(f); err == nil && json.Unmarshal(b, &have) == nil && have.MaxBytes > 0 {
			total += have.MaxBytes
		}
	}
	return total
}
