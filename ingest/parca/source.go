// Package parca is the door of Parca's agent: batches of samples and kernel times over gRPC, as the files of its offline mode, and as OTLP
// profiles; and the cubins that samples refer to.
//
// Start with Source. A batch is decoded and cut by process into parts (batch.go); the methods are in write.go and debuginfo.go. A cubin is
// one part, in a session of its own (cubin.go); which of them are stored is in a registry (registry.go). What each answer makes the agent
// do decides which one is given: it sends again after Unavailable and ResourceExhausted, and never after others.
package parca

import (
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/rpc"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/wire"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Source is Parca's agent, for ingest.Config.Sources. Its sessions are named after processes, which do not end, or after cubins.
func Source() ingest.Source {
	return ingest.Source{
		Name: parca.SourceName, Prefixes: []string{parca.SessionPrefix, parca.CubinPrefix}, Recurs: true,
		Routes: []ingest.Route{
			{Path: "/api/v1/parca", Upload: newFile},
			{Path: "/api/v1/cubins", Upload: newCubin, MostBody: func(l tenant.Limits) int64 { return l.MaxCubinBytes }},
		},
		RPCs:    rpcs,
		Kinds:   []stream.Kind{stream.KindParca, stream.KindCubin},
		Reasons: []string{reasonBadBatch},
		Refusals: []string{reasonBadBatch, "bad_option", "bad_build_id", "bad_upload", "not_a_cubin", "cubin_too_large",
			"cubin_size",
			"cubin_stored", "cubin_missing", reject.BodyTooLarge},
	}
}

// reasonBadBatch is a batch that cannot be decoded.
const reasonBadBatch = "bad_batch"

// rpcs are the methods for one gateway.
func rpcs(g *ingest.Gateway) []ingest.RPC {
	known := newRegistry(g.Streams(), g.Logger())
	g.ReadyWhen(known.missing)
	g.Go(known.run)
	d := &debuginfo{known: known}
	return []ingest.RPC{
		{Method: wire.WriteArrow, Upload: true, Most: rpc.MaxMessage, Serve: serveWriteArrow},
		{Method: wire.Write, Upload: true, Most: rpc.MaxMessage, Serve: serveWrite},
		{Method: wire.ExportProfiles, Upload: true, Most: rpc.MaxMessage, Serve: serveExport},
		{Method: wire.ReportPanic, Serve: serveReportPanic},
		{Method: wire.ShouldInitiateUpload, Serve: d.shouldInitiate},
		{Method: wire.InitiateUpload, Serve: d.initiate},
		{Method: wire.Upload, Upload: true, Most: rpc.MaxMessage, Serve: d.upload},
		{Method: wire.MarkUploadFinished, Serve: d.markFinished},
	}
}
