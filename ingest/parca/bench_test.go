package parca_test

import (
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/parca/wire"
	"github.com/warpline/warpline/proto/tenant"
)

// BenchmarkShouldInitiateUpload asks over one connection, with many questions at once as a fleet has. The goal is 10 000 a second.
func BenchmarkShouldInitiateUpload(b *testing.B) {
	r := start(b, broker.Layout{}, func(c *ingest.Config) { c.Defaults = tenant.Limits{RequestsPerSecond: 1e9} })
	r.asksUntil(buildID, true)
	q := &wire.ShouldInitiateUploadRequest{BuildId: buildID, BuildIdType: wire.BuildIDType_BUILD_ID_TYPE_HASH}
	ctx := r.with(devKey)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var a wire.ShouldInitiateUploadResponse
			if err := r.conn.Invoke(ctx, wire.ShouldInitiateUpload, q, &a); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
