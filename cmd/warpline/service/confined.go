package service

import (
	"github.com/warpline/warpline/sink/engine"
)

// unconfined is reported for as long as the engine of this kernel is not kept from the rest of the machine. It blocks nothing: data flows,
// and a person who cannot change the kernel knows it from the start.
const unconfined = "the ClickHouse engine is not confined: user reader can reach what the engine's process can, files or the network of " +
	"this machine"

// engineUnconfined adds that, and what is missing. s is nil where the engine is not ours.
func engineUnconfined(t map[string]string, s *engine.Supervisor) {
	if s == nil {
		return
	}
	if e := s.Engine(); e != nil {
		if why := e.Unconfined(); why != "" {
			t[unconfined] = why
		}
	}
}
