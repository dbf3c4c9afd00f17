package parca_test

import (
	"encoding/binary"
	"encoding/json"
	"sync"

	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/parca/wire"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

const buildID = "0123456789abcdef0123456789abcdef"

// asks is ShouldInitiateUpload as the agent calls it.
func (r *rig) asks(id string, of wire.BuildIDType) (yes bool, reason string) {
	r.t.Helper()
	var a wire.ShouldInitiateUploadResponse
	if err := r.call(wire.ShouldInitiateUpload, &wire.ShouldInitiateUploadRequest{BuildId: id, BuildIdType: of}, &a); err != nil {
		r.t.Fatal(err)
	}
	return a.ShouldInitiateUpload, a.Reason
}

// asksUntil asks until the answer is as expected: the registry follows its bucket.
func (r *rig) asksUntil(id string, want bool) string {
	r.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		yes, reason := r.asks(id, wire.BuildIDType_BUILD_ID_TYPE_HASH)
		if yes == want {
			return reason
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: the answer stays %t (%s)", id, yes, reason)
		}
	}
}

func (r *rig) initiate(id string, size int64) (*wire.UploadInstructions, error) {
	r.t.Helper()
	var a wire.InitiateUploadResponse
	err := r.call(wire.InitiateUpload, &wire.InitiateUploadRequest{BuildId: id, Size: size, Hash: id,
		BuildIdType: wire.BuildIDType_BUILD_ID_TYPE_HASH}, &a)
	return a.GetUploadInstructions(), err
}

// upload streams messages of Upload and returns its answer.
func (r *rig) upload(ctx context.Context, messages ...*wire.UploadRequest) (*wire.UploadResponse, error) {
	r.t.Helper()
	s, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, wire.Upload)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if s.SendMsg(m) != nil {
			break // the answer says why
		}
	}
	s.CloseSend()
	var a wire.UploadResponse
	return &a, s.RecvMsg(&a)
}

func info(id, upload string) *wire.UploadRequest {
	return &wire.UploadRequest{Data: &wire.UploadRequest_Info{Info: &wire.UploadInfo{BuildId: id, UploadId: upload}}}
}

// chunks cuts a file into messages.
func chunks(b []byte, size int) (out []*wire.UploadRequest) {
	for c := range slices.Chunk(b, size) {
		out = append(out, &wire.UploadRequest{Data: &wire.UploadRequest_ChunkData{ChunkData: c}})
	}
	return out
}

// offer does what the agent does with a cubin that is wanted.
func (r *rig) offer(id string, cubin []byte) error {
	r.t.Helper()
	at, err := r.initiate(id, int64(len(cubin)))
	if err != nil {
		return err
	}
	if at.GetUploadStrategy() != wire.UploadInstructions_UPLOAD_STRATEGY_GRPC {
		r.t.Errorf("strategy %v", at.GetUploadStrategy())
	}
	a, err := r.upload(r.with(devKey), append([]*wire.UploadRequest{info(id, at.UploadId)}, chunks(cubin, 8<<20)...)...)
	if err != nil {
		return err
	}
	if a.BuildId != id || a.Size != uint64(len(cubin)) {
		r.t.Errorf("answer %v", a)
	}
	return r.call(wire.MarkUploadFinished, &wire.MarkUploadFinishedRequest{BuildId: id, UploadId: at.UploadId},
		&wire.MarkUploadFinishedResponse{})
}

// madeCubin is an ELF file of CUDA's machine without sections, of a size.
func madeCubin(size int) []byte {
	b := bytes.Repeat([]byte{7}, size)
	copy(b, "\x7fELF\x02\x01\x01\x33")
	b[18], b[19] = 190, 0
	copy(b[40:48], make([]byte, 8))
	copy(b[58:62], make([]byte, 4))
	return b
}

// A cubin is wanted until it is stored, and then it is one part of a session of its own.
func TestCubinIsUploadedOnce(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	cubin := madeCubin(3 << 20) // does not fit a message of NATS in one part
	r.asksUntil(buildID, true)
	if err := r.offer(buildID, cubin); err != nil {
		t.Fatal(err)
	}
	reason := r.asksUntil(buildID, false)
	if strings.Contains(reason, "in-progress") {
		t.Errorf("the reason %q makes the agent ask again for ever", reason)
	}
	got := r.published()
	if len(got) != 1 {
		t.Fatalf("%d parts", len(got))
	}
	m := got[0]
	if m.Kind != stream.KindCubin || m.Session != "cubin:"+buildID || m.Source != "parca" || m.Events != 1 || m.Bytes != uint64(len(cubin)) ||
		m.Object == "" || !m.Recurs || !bytes.Equal(m.body, cubin) {
		t.Errorf("part %+v, %d bytes", m.Envelope, len(m.body))
	}
	_, err := r.initiate(buildID, int64(len(cubin)))
	wants(t, err, codes.AlreadyExists)
	// an agent that was told yes before
	at := fmt.Sprintf("%d-0123456789abcdef", len(cubin))
	if _, err := r.upload(r.with(devKey), append([]*wire.UploadRequest{info(buildID, at)}, chunks(cubin, 1<<20)...)...); err != nil {
		t.Error(err)
	}
	if n := len(r.published()); n != 1 {
		t.Errorf("%d parts after the same cubin came again", n)
	}
	if n := r.metric("events_repeated_total"); n != 1 {
		t.Errorf("%v events repeated", n)
	}
	r.balanced()
}

// What is not a cubin is declined: by the kind of its id at the question, or by its first bytes, which is remembered.
func TestWhatIsNoCubinIsDeclined(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	r.asksUntil(buildID, true)
	for _, of := range []wire.BuildIDType{wire.BuildIDType_BUILD_ID_TYPE_GNU, wire.BuildIDType_BUILD_ID_TYPE_GO,
		wire.BuildIDType_BUILD_ID_TYPE_SOURCE_MAP} {
		if yes, reason := r.asks(buildID, of); yes || strings.Contains(reason, "in-progress") {
			t.Errorf("%v: %t, %q", of, yes, reason)
		}
	}
	other := strings.Repeat("ab", 16)
	program := madeCubin(1 << 20)
	program[18] = 62 // x86-64
	wants(t, r.offer(other, program), codes.InvalidArgument)
	r.asksUntil(other, false)
	if n := len(r.published()); n != 0 {
		t.Errorf("%d parts", n)
	}
	again := startOn(t, r.streams, nil) // another gateway knows it too
	again.asksUntil(other, false)
	again.asksUntil(buildID, true)
}

// Each way in which an upload goes wrong has its answer, and nothing of it is stored.
func TestUploadsThatGoWrong(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	r.asksUntil(buildID, true)
	cubin := madeCubin(5000)
	at := func(size int) string { return fmt.Sprintf("%d-0123456789abcdef", size) }
	for name, messages := range map[string][]*wire.UploadRequest{
		"no message":        nil,
		"no info":           chunks(cubin, 1000),
		"no build id":       append([]*wire.UploadRequest{info("", at(5000))}, chunks(cubin, 1000)...),
		"id too long":       append([]*wire.UploadRequest{info(strings.Repeat("a", 300), at(5000))}, chunks(cubin, 1000)...),
		"upload id unknown": append([]*wire.UploadRequest{info(buildID, "x")}, chunks(cubin, 1000)...),
		"info twice":        append([]*wire.UploadRequest{info(buildID, at(5000)), info(buildID, at(5000))}, chunks(cubin, 1000)...),
		"shorter":           append([]*wire.UploadRequest{info(buildID, at(5001))}, chunks(cubin, 1000)...),
		"longer":            append([]*wire.UploadRequest{info(buildID, at(4999))}, chunks(cubin, 1000)...),
		"no chunk":          {info(buildID, at(5000))},
		"too large":         append([]*wire.UploadRequest{info(buildID, at(65<<20))}, chunks(cubin, 1000)...),
	} {
		_, err := r.upload(r.with(devKey), messages...)
		if err == nil {
			t.Errorf("%s: taken", name)
		}
		wants(t, err, codes.InvalidArgument)
	}
	_, err := r.initiate(buildID, 65<<20)
	wants(t, err, codes.InvalidArgument)
	_, err = r.initiate(buildID, 0)
	wants(t, err, codes.InvalidArgument)
	err = r.call(wire.MarkUploadFinished, &wire.MarkUploadFinishedRequest{BuildId: buildID}, &wire.MarkUploadFinishedResponse{})
	wants(t, err, codes.FailedPrecondition)
	if yes, _ := r.asks(buildID, wire.BuildIDType_BUILD_ID_TYPE_HASH); !yes {
		t.Error("no, and nothing is stored")
	}
	if n := len(r.published()); n != 0 {
		t.Errorf("%d parts", n)
	}
	r.balanced()
}

// Several agents may upload one cubin at once: one part is stored, and all are answered with success.
func TestParallelUploadsOfOneCubin(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	r.asksUntil(buildID, true)
	cubin := madeCubin(2 << 20)
	at := fmt.Sprintf("%d-0123456789abcdef", len(cubin))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := r.upload(r.with(devKey), append([]*wire.UploadRequest{info(buildID, at)}, chunks(cubin, 1<<20)...)...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(r.published()); n != 1 {
		t.Errorf("%d parts", n)
	}
	r.balanced()
}

// A tenant is asked for its own cubins, whatever others have stored.
func TestTenantsDoNotSeeEachOthersCubins(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	r.asksUntil(buildID, true)
	if err := r.offer(buildID, madeCubin(4000)); err != nil {
		t.Fatal(err)
	}
	r.asksUntil(buildID, false)
	var a wire.ShouldInitiateUploadResponse
	err := r.conn.Invoke(r.with(r.key("other", tenant.Limits{})), wire.ShouldInitiateUpload,
		&wire.ShouldInitiateUploadRequest{BuildId: buildID, BuildIdType: wire.BuildIDType_BUILD_ID_TYPE_HASH}, &a)
	if err != nil || !a.ShouldInitiateUpload {
		t.Errorf("%v, %v", &a, err)
	}
}

// A whole cubin takes the place of a stripped one, and not the other way round; an agent is asked for neither again.
func TestWholeCubinReplacesStripped(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	whole, stripped := vector(t, "pc_sample_toy.sm_121.cubin"), vector(t, "pc_sample_toy.sm_121.cubin.stripped")
	code, text := r.post("/api/v1/cubins", stripped)
	if code != 400 || !strings.Contains(text, "build_id") {
		t.Errorf("a stripped cubin without its id: %d %s", code, text)
	}
	var first, second, third struct {
		BuildID   string `json:"build_id"`
		Whole     bool
		Duplicate bool
		Accepted  int
	}
	const id = "0f0e0d0c0b0a09080706050403020100"
	post := func(path string, body []byte, into any) {
		t.Helper()
		code, text := r.post(path, body)
		if code != 200 {
			t.Fatalf("%d %s", code, text)
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	post("/api/v1/cubins?build_id="+id, stripped, &first)
	post("/api/v1/cubins?build_id="+id, whole, &second)
	post("/api/v1/cubins?build_id="+id, stripped, &third)
	if first.Whole || first.Duplicate || !second.Whole || second.Duplicate || !third.Duplicate || third.Accepted != 1 {
		t.Errorf("%+v, %+v, %+v", first, second, third)
	}
	if n := len(r.published()); n != 2 {
		t.Errorf("%d parts", n)
	}
	post("/api/v1/cubins", whole, &first)
	if len(first.BuildID) != 32 || first.BuildID == id {
		t.Errorf("build id %s", first.BuildID)
	}
	r.balanced()
}

// What was deleted is wanted again, and what comes then is new, also within JetStream's duplicate window.
func TestDeletedCubinIsWantedAgain(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	r.asksUntil(buildID, true)
	cubin := madeCubin(4000)
	if err := r.offer(buildID, cubin); err != nil {
		t.Fatal(err)
	}
	r.asksUntil(buildID, false)
	// as the sink does it, see sink/erase_streams.go
	session := "cubin:" + buildID
	mark := binary.AppendUvarint(nil, 1)
	if _, err := r.streams.Windows.Put(t.Context(), "dev."+stream.SessionToken(session)+".d", mark); err != nil {
		t.Fatal(err)
	}
	if err := r.streams.Cubins.Purge(t.Context(), stream.CubinKey("dev", buildID)); err != nil {
		t.Fatal(err)
	}
	r.asksUntil(buildID, true)
	if err := r.offer(buildID, cubin); err != nil {
		t.Fatal(err)
	}
	if n := len(r.published()); n != 2 {
		t.Errorf("%d parts", n)
	}
	r.asksUntil(buildID, false)
}
