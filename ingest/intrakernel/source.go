// Package intrakernel is the door of intra-kernel profilers: the device's buffers of one launch with their header, as a multipart form, or
// the trace that write_trace made of them.
//
// Start with Source. The upload is read once to check it and to know it by its content (capture.go), and again to publish it: paired here,
// because only a whole capture can be paired, and cut into parts that decode by themselves.
package intrakernel

import (
	"net/http"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
)

// SessionPrefix begins the ids of sessions.
const SessionPrefix = "ikp:"

// Source is captures of intra-kernel profilers, for ingest.Config.Sources. Their sessions have the ids that clients choose, which may come
// again.
func Source() ingest.Source {
	return source(&desk{working: make(chan struct{}, 1), sending: make(chan struct{}, 2)})
}

func source(d *desk) ingest.Source {
	return ingest.Source{
		Name: "intra-kernel", Prefixes: []string{SessionPrefix}, Recurs: true,
		Routes: []ingest.Route{{Path: "/api/v1/intrakernel", Upload: newUpload(d)}},
		Kinds:  []stream.Kind{stream.KindIntraKernel},
		Refusals: []string{"bad_option", "bad_input", "bad_events", "bad_counters", "bad_trace", "bad_form", "stretched_times",
			"session_conflict", tooManyRecords},
	}
}

func refuse(status int, code, detail string) *ingest.Refusal {
	return &ingest.Refusal{Status: status, Code: code, Detail: detail}
}

func unusable(code, detail string) *ingest.Refusal {
	return refuse(http.StatusBadRequest, code, detail+"; nothing was stored")
}
