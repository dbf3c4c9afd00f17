package broker

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// DeleteObject deletes an object, also from a store that is full: there is no room for the note that it is deleted until its bytes are
// gone, so these go first. It returns jetstream.ErrObjectNotFound, wrapped or not, when there is none.
func DeleteObject(ctx context.Context, js jetstream.JetStream, store jetstream.ObjectStore, name string) error {
	err := store.Delete(ctx, name)
	if err == nil || !IsFull(err) {
		return err
	}
	info, err := store.GetInfo(ctx, name)
	if err != nil {
		return err
	}
	st, err := js.Stream(ctx, "OBJ_"+info.Bucket)
	if err != nil {
		return fmt.Errorf("object store %s: %w", info.Bucket, err)
	}
	if err := st.Purge(ctx, jetstream.WithPurgeSubject("$O."+info.Bucket+".C."+info.NUID)); err != nil {
		return fmt.Errorf("object store %s: %w", info.Bucket, err)
	}
	return store.Delete(ctx, name)
}
