package aggregate

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// bodyOf returns the decompressed body, from the message or from the object store. It waits for a store that does not answer, so an error
// other than ctx's means that the body is gone for good.
func (o *owner) bodyOf(ctx context.Context, env *stream.Envelope, compressed []byte) ([]byte, error) {
	if env.Object == "" {
		return stream.DecodeBody(o.body, compressed)
	}
	for {
		body, err := o.object(ctx, env.Object, bodyLimit(env.Kind))
		if err == nil || errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, errObjectSize) || ctx.Err() != nil {
			return body, err
		}
		o.retry("object", err)
		sleep(ctx, 500*time.Millisecond)
	}
}

var errObjectSize = errors.New("object is larger than a part may be")

// bodyLimit is the largest body of an object that is read back.
func bodyLimit(kind stream.Kind) uint64 {
	if kind == stream.KindCubin {
		return stream.MaxCubinBytes
	}
	return stream.MaxBodyBytes
}

func (o *owner) object(ctx context.Context, name string, most uint64) ([]byte, error) {
	try, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	info, err := o.streams.Parts.GetInfo(try, name)
	if err != nil {
		return nil, err
	}
	if info.Size > most {
		return nil, errObjectSize
	}
	return o.streams.Parts.GetBytes(try, name)
}
