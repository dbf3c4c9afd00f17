package ingest

import (
	"context"
	"time"
)

// SealUploads makes a block of what a gateway has settled of a tenant, as it does by itself in time, and deletes the claims.
func (g *Gateway) SealUploads(ctx context.Context, tenant string) int {
	gone := g.uploads.seal(ctx, tenant)
	g.uploads.drop(ctx, gone)
	return len(gone)
}

// AdoptUploads seals what gateways that have ended left behind, as if it were that much later.
func (g *Gateway) AdoptUploads(ctx context.Context, later time.Duration) error {
	return g.uploads.adopt(ctx, time.Now().Add(later))
}

// LookBack looks whether INGEST still has the newest uploads, as a gateway does when it starts.
func (g *Gateway) LookBack(ctx context.Context) error { return g.uploads.lookBack(ctx) }

// FlushDoor sends the gateway's own book to the workers, as it does every few seconds, and then looks whether INGEST has lost of it.
func (g *Gateway) FlushDoor(ctx context.Context) {
	g.door.Flush(ctx)
	g.door.Look(ctx)
}
