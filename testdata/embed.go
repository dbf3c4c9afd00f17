// Package testdata carries the captures that `warpline demo` replays, so that the binary needs no files beside it.
package testdata

import "embed"

// GPUFlight holds session folders as GPU Flight clients leave them, sidecars included; see gpuflight/README.md.
//
//go:embed all:gpuflight
var GPUFlight embed.FS
