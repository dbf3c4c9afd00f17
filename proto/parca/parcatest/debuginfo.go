package parcatest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a build id is, as ShouldInitiateUpload says it.
const (
	GNUBuildID  = 1
	HashBuildID = 2 // of cubins
	GoBuildID   = 3
)

// InProgress is the one reason for which the agent asks again, five minutes later.
const InProgress = "A previous upload is still in-progress and not stale yet (only stale uploads can be retried)."

// chunkBytes is how much of a file the agent sends at once.
const chunkBytes = 8 << 20

// Offered is what became of an offer.
type Offered struct {
	Wanted bool   // the gateway said yes
	Reason string // why not
	Stored bool   // it was sent, and MarkUploadFinished answered OK
}

// Offer has the whole dialogue about a file: asks whether it is wanted, and sends it if so. The questions are tried again as unary calls
// are, the upload is not.
func (c *Client) Offer(ctx context.Context, buildID string, file []byte) (Offered, error) {
	o, err := c.Ask(ctx, buildID, HashBuildID)
	if err != nil || !o.Wanted {
		return o, err
	}
	id, err := c.Initiate(ctx, buildID, int64(len(file)))
	if err != nil {
		return o, err
	}
	if err := c.Upload(ctx, buildID, id, file); err != nil {
		return o, err
	}
	var m message
	m.text(1, buildID)
	m.text(2, id)
	_, err = c.Call(ctx, debuginfo+"MarkUploadFinished", m)
	o.Stored = err == nil
	return o, err
}

// Ask is ShouldInitiateUpload. The agent does not send a hash with it.
func (c *Client) Ask(ctx context.Context, buildID string, kind uint64) (Offered, error) {
	var m message
	m.text(1, buildID)
	m.number(5, kind)
	answer, err := c.Call(ctx, debuginfo+"ShouldInitiateUpload", m)
	numbers, texts := fields(answer)
	return Offered{Wanted: numbers[1] == 1, Reason: string(texts[2])}, err
}

// Initiate is InitiateUpload; it returns the upload's id.
func (c *Client) Initiate(ctx context.Context, buildID string, size int64) (upload string, err error) {
	var m message
	m.text(1, buildID)
	m.number(2, uint64(size))
	m.text(3, buildID)
	m.number(6, HashBuildID)
	answer, err := c.Call(ctx, debuginfo+"InitiateUpload", m)
	if err != nil {
		return "", err
	}
	_, parts := fields(answer)
	instructions, ok := parts[1]
	if !ok {
		return "", errors.New("no upload instructions: the agent would never offer this again")
	}
	numbers, texts := fields(instructions)
	if numbers[3] != 1 {
		return "", fmt.Errorf("upload strategy %d is not gRPC", numbers[3])
	}
	return string(texts[2]), nil
}

// Upload sends a file in chunks, as the stream Upload.
func (c *Client) Upload(ctx context.Context, buildID, upload string, file []byte) error {
	ctx, cancel := context.WithCancel(c.with(ctx))
	defer cancel()
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, debuginfo+"Upload")
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	var info, first message
	info.text(1, buildID)
	info.text(2, upload)
	first.sub(1, info)
	messages := [][]byte{first}
	for rest := file; len(rest) > 0; rest = rest[min(len(rest), chunkBytes):] {
		var m message
		m.sub(2, rest[:min(len(rest), chunkBytes)])
		messages = append(messages, m)
	}
	for _, m := range messages {
		if err := s.SendMsg(&m); errors.Is(err, io.EOF) {
			break // what is wrong is in the answer
		} else if err != nil {
			return fmt.Errorf("upload: %w", err)
		}
	}
	if err := s.CloseSend(); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	var answer []byte
	if err := s.RecvMsg(&answer); err != nil {
		return err
	}
	numbers, _ := fields(answer)
	if numbers[2] != uint64(len(file)) {
		return status.Errorf(codes.DataLoss, "the gateway counts %d of %d bytes", numbers[2], len(file))
	}
	return nil
}
