package parca

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/wire"
)

// serveWriteArrow stores a batch of schema v2. The agent sends the same bytes again after an answer that may pass.
func serveWriteArrow(ctx context.Context, c *ingest.Call) error {
	ipc, err := receiveField(c)
	if err != nil {
		return err
	}
	if _, err := c.Store(ctx, &batch{form: formArrow, bytes: [][]byte{ipc}}); err != nil {
		return err
	}
	return c.Send(nil)
}

// serveWrite is the dialogue of schema v1: samples, the ids of all stacks, the stacks. The agent does not send it again.
func serveWrite(ctx context.Context, c *ingest.Call) error {
	samples, err := receiveField(c)
	if err != nil {
		return err
	}
	ids, err := parca.StacktraceIDs(samples)
	if err != nil {
		return undecodable(err)
	}
	if err := c.Send(appendField(nil, ids)); err != nil {
		return err
	}
	locations, err := receiveField(c)
	if err != nil {
		return err
	}
	_, err = c.Store(ctx, &batch{form: formArrowV1, bytes: [][]byte{samples, locations}})
	return err
}

// serveExport stores a batch of OTLP profiles.
func serveExport(ctx context.Context, c *ingest.Call) error {
	msg, err := c.Receive()
	if err != nil {
		return err
	}
	if _, err := c.Store(ctx, &batch{form: formOTLP, bytes: [][]byte{msg}}); err != nil {
		return err
	}
	return c.Send(nil)
}

// receiveField reads a message that has one field of bytes, number 1, and does not copy it.
func receiveField(c *ingest.Call) ([]byte, error) {
	msg, err := c.Receive()
	if err != nil {
		return nil, err
	}
	field, _, err := fieldOf(msg, 1)
	return field, err
}

// fieldOf returns the bytes of a field of a message, without a copy.
func fieldOf(msg []byte, want protowire.Number) (field []byte, found bool, err error) {
	for len(msg) > 0 {
		number, kind, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return nil, false, badMessage(protowire.ParseError(n))
		}
		msg = msg[n:]
		if number == want && kind == protowire.BytesType {
			field, n = protowire.ConsumeBytes(msg)
			found = true
		} else {
			n = protowire.ConsumeFieldValue(number, kind, msg)
		}
		if n < 0 {
			return nil, false, badMessage(protowire.ParseError(n))
		}
		msg = msg[n:]
	}
	return field, found, nil
}

// appendField appends the field that receiveField reads.
func appendField(dst, field []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), field)
}

// receive reads a message of a small method.
func receive(c *ingest.Call, into proto.Message) error {
	msg, err := c.Receive()
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(msg, into); err != nil {
		return badMessage(err)
	}
	return nil
}

// send writes a message.
func send(c *ingest.Call, m proto.Message) error {
	msg, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return c.Send(msg)
}

func badMessage(err error) error {
	return &ingest.Refusal{Status: http.StatusBadRequest, Code: "bad_message",
		Detail: "the message is not one of its method: nothing was stored",
		Cause:  err}
}

// Bounds of what is logged of a crash.
const (
	maxPanicBytes    = 4 << 10
	maxPanicMetadata = 16
	maxMetadataBytes = 128
)

// serveReportPanic logs the end of what a crashed agent wrote.
func serveReportPanic(_ context.Context, c *ingest.Call) error {
	var m wire.ReportPanicRequest
	if err := receive(c, &m); err != nil {
		if errors.Is(err, io.EOF) {
			return badMessage(err)
		}
		return err
	}
	text := m.GetStderr()
	text = text[max(0, len(text)-maxPanicBytes):]
	args := []any{"stderr", ingest.Printable(text, maxPanicBytes)}
	for name, value := range m.GetMetadata() {
		if len(args) > 2*maxPanicMetadata {
			break
		}
		args = append(args, "meta_"+ingest.Printable(name, maxMetadataBytes), ingest.Printable(value, maxMetadataBytes))
	}
	c.Warn("agent_panic "+c.Tenant(), "a Parca agent crashed and says so: the trouble is its own, it starts again by itself", args...)
	return c.Send(nil)
}
