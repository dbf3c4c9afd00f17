package aggregate

import (
	"strconv"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/stream"
)

func init() { rows.Strict = true }

// WithFold returns c with limits of time for the fold of a part, and something that happens at the beginning of each fold.
func (c Config) WithFold(limit, grace time.Duration, before func(stream.Envelope)) Config {
	c.foldTime, c.stuckGrace, c.beforeFold = limit, grace, before
	return c
}

// WithClock returns c with the time that it is for the fold of a partition.
func (c Config) WithClock(clock func(partition int) time.Time) Config {
	c.clock = clock
	return c
}

// Plain decompresses a snapshot.
func Plain(snapshot []byte) ([]byte, error) { return s2.Decode(nil, snapshot) }

// Reencode reads a snapshot and returns it as this version writes it, decompressed, and the version.
func Reencode(snapshot []byte, sources ...Source) (again []byte, version string, err error) {
	plain, err := Plain(snapshot)
	if err != nil {
		return nil, "", err
	}
	cfg := Config{Sources: sources}
	f := newFold(&cfg, newCounters(nil))
	if err := f.ApplyState(plain); err != nil {
		return nil, "", err
	}
	return f.AppendState(nil, true), strconv.Itoa(state.Version), nil
}

// testConfig has the sources of this program.
func testConfig() Config { return Config{Sources: Sources}.withDefaults() }

// Sources are those of this program: the outer tests, which may import them, put them here.
var Sources []Source
