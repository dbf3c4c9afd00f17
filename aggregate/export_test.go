package aggregate

import (
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// WithFold returns c with limits of time for the fold of a part, and something that happens at the beginning of each fold.
func (c Config) WithFold(limit, grace time.Duration, before func(stream.Envelope)) Config {
	c.foldTime, c.stuckGrace, c.beforeFold = limit, grace, before
	return c
}
