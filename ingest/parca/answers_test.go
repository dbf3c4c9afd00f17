package parca_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/parca/wire"
	"github.com/warpline/warpline/proto/tenant"
)

// write is WriteArrow as the agent calls it, with a key.
func (r *rig) write(key string, ipc []byte, opts ...grpc.CallOption) error {
	r.t.Helper()
	return r.conn.Invoke(r.with(key), wire.WriteArrow, &wire.WriteArrowRequest{IpcBuffer: ipc}, &wire.WriteArrowResponse{}, opts...)
}

// The agent sends the same bytes again after Unavailable and ResourceExhausted, and gives up after all others: so what may pass is one of
// these and says when, and what never will be accepted is another one.
func TestAnswersFollowWhatTheAgentDoesWithThem(t *testing.T) {
	var full atomic.Bool
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.Refuse = func() string {
			if full.Load() {
				return "the stream is full"
			}
			return ""
		}
	})
	good := vector(t, "batch1.v2.lz4.arrows")
	wants(t, r.write(devKey, good), codes.OK)
	wants(t, r.write("", good), codes.Unauthenticated)
	wants(t, r.write("no-such-key", good), codes.Unauthenticated)
	wants(t, r.write(devKey, good[:len(good)/2]), codes.InvalidArgument)
	wants(t, r.write(devKey, []byte("no arrow at all")), codes.InvalidArgument)
	wants(t, r.write(devKey, make([]byte, 33<<20)), codes.InvalidArgument)
	wants(t, r.write(devKey, make([]byte, 33<<20), grpc.UseCompressor("gzip")), codes.InvalidArgument)
	wants(t, r.write(devKey, good, grpc.UseCompressor("gzip")), codes.OK)
	var header metadata.MD
	daily := r.key("daily", tenant.Limits{EventsPerDay: 1})
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		wants(t, r.write(daily, good, grpc.Header(&header)), want)
		if len(header.Get("RateLimit")) != 1 || len(header.Get("RateLimit-Policy")) != 1 {
			t.Errorf("%v does not say what is left: %v", want, header)
		}
	}
	dropped := r.key("dropped", tenant.Limits{EventsPerDay: 1, QuotaPolicy: tenant.QuotaDrop})
	wants(t, r.write(dropped, good), codes.OK)
	wants(t, r.write(dropped, good), codes.FailedPrecondition)

	slow := r.key("slow", tenant.Limits{RequestsPerSecond: 0.1, BurstSeconds: 10})
	for range 2 {
		err := r.write(slow, good)
		if err == nil {
			continue
		}
		wants(t, err, codes.ResourceExhausted)
		if after(err) <= 0 {
			t.Errorf("%v does not say when to come again", err)
		}
	}
	err := r.write(slow, good)
	wants(t, err, codes.ResourceExhausted)

	revoked := r.key("gone", tenant.Limits{})
	wants(t, r.write(revoked, good), codes.OK)
	if _, err := ingest.NewKeys(r.streams.Keys).Revoke(t.Context(), revoked); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); r.write(revoked, good) == nil && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	wants(t, r.write(revoked, good), codes.Unauthenticated)

	full.Store(true)
	err = r.write(devKey, good)
	wants(t, err, codes.Unavailable)
	if after(err) <= 0 {
		t.Errorf("%v does not say when to come again", err)
	}
	var health healthpb.HealthCheckResponse
	if err := r.conn.Invoke(r.with(""), "/grpc.health.v1.Health/Check", &healthpb.HealthCheckRequest{}, &health); err != nil {
		t.Error(err)
	}
	if health.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health is %v", health.Status)
	}
	full.Store(false)
	wants(t, r.write(devKey, good), codes.OK)
	r.balanced()
}

// A stream without room is what may pass.
func TestFullStreamIsUnavailable(t *testing.T) {
	r := start(t, broker.Layout{IngestMaxBytes: 1 << 20}, nil)
	var err error
	for i := range 64 {
		err = r.offer(strings.Repeat("0", 30)+string("0123456789abcdef"[i/16])+string("0123456789abcdef"[i%16]), wholeOf(64<<10, byte(i)))
		if err != nil {
			break
		}
	}
	wants(t, err, codes.Unavailable)
	if after(err) <= 0 {
		t.Errorf("%v does not say when to come again", err)
	}
}

// wholeOf is a cubin that does not compress.
func wholeOf(size int, seed byte) []byte {
	b := madeCubin(size)
	x := uint32(seed) + 1
	for i := 64; i < len(b); i++ {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func TestHealthNeedsNoKey(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	var health healthpb.HealthCheckResponse
	if err := r.conn.Invoke(r.with(""), "/grpc.health.v1.Health/Check", &healthpb.HealthCheckRequest{Service: "any"}, &health); err != nil {
		t.Fatal(err)
	}
	if health.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health is %v", health.Status)
	}
}

func TestTheRestIsUnimplemented(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	for _, method := range []string{
		"/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
		"/opentelemetry.proto.collector.logs.v1.LogsService/Export",
		"/opentelemetry.proto.collector.trace.v1.TraceService/Export",
		"/grpc.health.v1.Health/Watch", "/a.B/C",
	} {
		wants(t, r.call(method, &emptypb.Empty{}, &emptypb.Empty{}), codes.Unimplemented)
	}
}

// An agent that crashed says why, to the log.
func TestPanicIsReported(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	err := r.call(wire.ReportPanic, &wire.ReportPanicRequest{Stderr: "panic: x", Metadata: map[string]string{"a": "b"}},
		&wire.ReportPanicResponse{})
	wants(t, err, codes.OK)
	err = r.call(wire.ReportPanic, &wire.ReportPanicRequest{Stderr: strings.Repeat("x", 1<<20)}, &wire.ReportPanicResponse{})
	wants(t, err, codes.InvalidArgument)
}

// A gateway that stops answers what it has begun, and others find it away.
func TestStoppingIsUnavailable(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	good := vector(t, "batch1.v2.lz4.arrows")
	wants(t, r.write(devKey, good), codes.OK)
	r.stop()
	wants(t, r.write(devKey, good), codes.Unavailable)
}

// zeros are bytes that compress a thousandfold.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// A message that is small and becomes large is unpacked as far as a message may be, and refused for good.
func TestGzipBomb(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	all := zeros(64 << 20)
	if _, err := io.Copy(z, &all); err != nil {
		t.Fatal(err)
	}
	z.Close()
	got := r.raw(devKey, append(frameHead(1, packed.Len()), packed.Bytes()...), "gzip")
	if got != codes.InvalidArgument {
		t.Errorf("answer is %v", got)
	}
	r.balanced()
}

// A client that leaves half-way costs nothing that stays.
func TestClientLeaves(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	ctx, cancel := context.WithCancel(r.with(devKey))
	s, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, wire.Upload)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(info(buildID, "4096-0123456789abcdef")); err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(chunks(madeCubin(100), 100)[0]); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); r.metric("active_requests") == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := s.RecvMsg(&wire.UploadResponse{}); !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	for deadline := time.Now().Add(60 * time.Second); r.metric("active_requests") > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the call goes on without its client")
		}
	}
	if yes, _ := r.asks(buildID, wire.BuildIDType_BUILD_ID_TYPE_HASH); !yes {
		t.Error("half a cubin counts as stored")
	}
	r.balanced()
}
