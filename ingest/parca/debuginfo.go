package parca

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/parca/wire"
)

// debuginfo is the service that cubins come to. It keeps nothing between the calls of an upload, which may come to different gateways.
type debuginfo struct{ known *registry }

// Reasons that the agent is given for "no". Any but the text for an upload under way makes it never ask again, so that one is never used.
const (
	reasonStored   = "it is stored"
	reasonNotCubin = "it is not a cubin: Warpline keeps the cubins of GPU kernels only"
)

// shouldInitiate answers whether a file is wanted. It is asked for each file of each process, so it looks nowhere but in memory.
func (d *debuginfo) shouldInitiate(_ context.Context, c *ingest.Call) error {
	var q wire.ShouldInitiateUploadRequest
	if err := receive(c, &q); err != nil {
		return err
	}
	yes, reason, err := d.wants(c, &q, time.Now())
	if err != nil {
		return err
	}
	return send(c, &wire.ShouldInitiateUploadResponse{ShouldInitiateUpload: yes, Reason: reason})
}

func (d *debuginfo) wants(c *ingest.Call, q *wire.ShouldInitiateUploadRequest, now time.Time) (yes bool, reason string, err error) {
	if !mayBeCubin(q.GetType(), q.GetBuildIdType()) {
		return false, reasonNotCubin, nil
	}
	if no := checkBuildID(q.GetBuildId()); no != nil {
		return false, "", no
	}
	rec, found, err := d.known.find(c.Tenant(), q.GetBuildId())
	switch {
	case err != nil:
		return false, "", err
	case found && rec.Declined:
		return false, reasonNotCubin, nil
	case found && suffices(&rec, c.Limits(), now):
		return false, reasonStored, nil
	}
	return true, "", nil
}

// mayBeCubin reports whether a file of this kind may be a cubin, whose ids are hashes.
func mayBeCubin(of wire.DebuginfoType, id wire.BuildIDType) bool {
	return of == wire.DebuginfoType_DEBUGINFO_TYPE_DEBUGINFO_UNSPECIFIED &&
		(id == wire.BuildIDType_BUILD_ID_TYPE_HASH || id == wire.BuildIDType_BUILD_ID_TYPE_UNKNOWN_UNSPECIFIED)
}

// initiate begins an upload. Several may be under way of one cubin: the first that is complete is kept.
func (d *debuginfo) initiate(_ context.Context, c *ingest.Call) error {
	var q wire.InitiateUploadRequest
	if err := receive(c, &q); err != nil {
		return err
	}
	if !mayBeCubin(q.GetType(), q.GetBuildIdType()) {
		return notACubin("what has such a build id")
	}
	if no := checkBuildID(q.GetBuildId()); no != nil {
		return no
	}
	most := c.Limits().MaxCubinBytes
	switch {
	case q.GetSize() <= 0:
		return refuse(http.StatusBadRequest, "cubin_size", "the size of the cubin must be above 0")
	case q.GetSize() > most:
		return cubinTooLarge(http.StatusBadRequest, c.Limits())
	}
	rec, found, err := d.known.find(c.Tenant(), q.GetBuildId())
	switch {
	case err != nil:
		return err
	case found && rec.Declined:
		return notACubin("what has this build id")
	case found && suffices(&rec, c.Limits(), time.Now()) && (rec.Whole || uint64(q.GetSize()) == rec.SizeBytes):
		return refuse(http.StatusConflict, "cubin_stored", "the cubin is stored")
	}
	return send(c, &wire.InitiateUploadResponse{UploadInstructions: &wire.UploadInstructions{
		BuildId: q.GetBuildId(), UploadId: newUploadID(q.GetSize()), Type: q.GetType(),
		UploadStrategy: wire.UploadInstructions_UPLOAD_STRATEGY_GRPC,
	}})
}

// newUploadID names an upload of so many bytes: <size>-<random>, so that any gateway knows what was said.
func newUploadID(size int64) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return strconv.FormatInt(size, 10) + "-" + hex.EncodeToString(b[:])
}

// sizeOfUpload reads the size that an upload id says.
func sizeOfUpload(id string) (int64, bool) {
	text, rest, ok := strings.Cut(id, "-")
	size, err := strconv.ParseInt(text, 10, 64)
	return size, ok && err == nil && size > 0 && len(rest) == 16
}

func badUpload(detail string) error {
	return refuse(http.StatusBadRequest, "bad_upload", detail+"; nothing was stored")
}

// upload stores a cubin. The agent does not send it again, whatever the answer is.
func (d *debuginfo) upload(ctx context.Context, c *ingest.Call) error {
	var first wire.UploadRequest
	if err := receive(c, &first); err != nil {
		if errors.Is(err, io.EOF) {
			return badUpload("the call has no messages")
		}
		return err
	}
	info := first.GetInfo()
	if info == nil {
		return badUpload("the first message has to say what is uploaded")
	}
	if no := checkBuildID(info.GetBuildId()); no != nil {
		return no
	}
	size, ok := sizeOfUpload(info.GetUploadId())
	if !ok {
		return badUpload("the upload id is not one that InitiateUpload gave")
	}
	if size > c.Limits().MaxCubinBytes {
		return cubinTooLarge(http.StatusBadRequest, c.Limits())
	}
	c.Drop()
	if err := d.keepChunks(ctx, c, info.GetBuildId(), size); err != nil {
		return err
	}
	if _, err := c.Store(ctx, &cubin{buildID: info.GetBuildId()}); err != nil {
		return err
	}
	return send(c, &wire.UploadResponse{BuildId: info.GetBuildId(), Size: uint64(size)})
}

// keepChunks receives the bytes of a cubin, and ends as soon as they cannot be one.
func (d *debuginfo) keepChunks(ctx context.Context, c *ingest.Call, buildID string, size int64) error {
	var head []byte
	for came := int64(0); ; {
		msg, err := c.Receive()
		if err == io.EOF && came == size {
			return nil
		}
		if err == io.EOF {
			return refuse(http.StatusBadRequest, "cubin_size", fmt.Sprintf("%d bytes came of a cubin of %d; nothing was stored", came, size))
		}
		if err != nil {
			return err
		}
		chunk, err := chunkOf(msg)
		if err != nil {
			return err
		}
		came += int64(len(chunk))
		if came > size {
			return refuse(http.StatusBadRequest, "cubin_size", fmt.Sprintf("more than the %d bytes came that InitiateUpload was told of; "+
				"nothing was stored", size))
		}
		if len(head) < headBytes {
			head = append(head, chunk[:min(len(chunk), headBytes-len(head))]...)
			if (len(head) == headBytes || came == size) && !isCubin(head) {
				d.known.decline(ctx, c.Tenant(), buildID)
				return notACubin("the file")
			}
		}
		if err := c.Keep(chunk); err != nil {
			return err
		}
		c.Drop()
	}
}

// chunkOf returns the bytes of a message, without a copy.
func chunkOf(msg []byte) ([]byte, error) {
	const number = 2
	chunk, ok, err := fieldOf(msg, number)
	if err == nil && !ok {
		err = badUpload("a message after the first has no chunk")
	}
	return chunk, err
}

// markFinished says whether an upload is stored; Upload itself was answered only then.
func (d *debuginfo) markFinished(ctx context.Context, c *ingest.Call) error {
	var q wire.MarkUploadFinishedRequest
	if err := receive(c, &q); err != nil {
		return err
	}
	if no := checkBuildID(q.GetBuildId()); no != nil {
		return no
	}
	rec, found, err := d.known.find(c.Tenant(), q.GetBuildId())
	if err != nil {
		return err
	}
	if !found { // the watch may be behind, and the upload may have been another gateway's
		var revision uint64
		rec, revision, err = look(ctx, d.known.kv, c.Tenant(), q.GetBuildId())
		if err != nil {
			return err
		}
		found = revision > 0
	}
	if !found || rec.Declined {
		return refuse(http.StatusPreconditionFailed, "cubin_missing", "no cubin of this build id is stored: upload it first")
	}
	return send(c, &wire.MarkUploadFinishedResponse{})
}
