package aggregate

import (
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// A cubin may be larger than any other body.
func TestBodyLimitDependsOnKind(t *testing.T) {
	if bodyLimit(stream.KindCubin) != 64<<20 || bodyLimit(stream.KindGPUFlight) != stream.MaxBodyBytes {
		t.Error(bodyLimit(stream.KindCubin), bodyLimit(stream.KindGPUFlight))
	}
}
