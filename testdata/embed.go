// Package testdata carries the captures that `warpline demo` replays, so that the binary needs no files beside it.
package testdata

import "embed"

// GPUFlight holds session folders as GPU Flight clients leave them, sidecars included; see gpuflight/README.md.
//
//go:embed all:gpuflight
var GPUFlight embed.FS

// Parca holds a capture of Parca's agent: two batches of PC samples and the cubin whose lines they need; see parca/README.md.
//
//go:embed parca/batch1.v2.lz4.arrows parca/batch2.v2.lz4.arrows parca/pc_sample_toy.sm_121.cubin
var Parca embed.FS

// IntraKernel holds the trace of a matrix product by an intra-kernel profiler; see intrakernel/README.md.
//
//go:embed intrakernel/samples/gemm_trace.json.gz
var IntraKernel embed.FS

// Traces holds traces of PyTorch's profiler; see traces/README.md. The demo imports one, the bench repeats all.
//
//go:embed traces/real/*.json.gz
var Traces embed.FS
