// Package trace is the door of Chrome traces, above all those of PyTorch's profiler, as JSON or as the form that GPU Flight's Python client
// sends.
//
// Start with Source. A trace is read once to know it by its content and for what may stand behind its events (upload.go), and again to
// publish it, cut into parts of whole events by package kineto (publish.go).
package trace

import (
	"net/http"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/proto/stream"
)

// SessionPrefix begins the ids of sessions.
const SessionPrefix = "trace:"

// Source is traces, for ingest.Config.Sources. Their sessions have the ids that clients choose, which may come again.
func Source() ingest.Source {
	return ingest.Source{
		Name: "trace", Prefixes: []string{SessionPrefix}, Recurs: true,
		Routes: []ingest.Route{
			{Path: "/api/v1/traces", Upload: newUpload(false)},
			{Path: "/api/v1/events/import/torch-profiler", Upload: newUpload(true)},
		},
		Kinds:   []stream.Kind{stream.KindTrace},
		Reasons: kineto.Reasons(),
		Refusals: []string{"bad_option", "bad_form", "bad_trace", "perfetto_protobuf", "intra_kernel_trace", "stretched_times",
			"session_conflict"},
	}
}

func refuse(status int, code, detail string) *ingest.Refusal {
	return &ingest.Refusal{Status: status, Code: code, Detail: detail}
}

func unusable(code, detail string) *ingest.Refusal {
	return refuse(http.StatusBadRequest, code, detail+"; nothing was stored")
}
