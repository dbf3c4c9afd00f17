package e2e_test

import (
	"context"
	"testing"
	"time"
)

// The doors of Parca agents, on one service: certificates, files, keys, and one build id with several contents.
func TestParcaDoors(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	t.Run("certificates", func(t *testing.T) { c.parcaCertificates(ctx, t) })
	t.Run("files", func(t *testing.T) { c.parcaFiles(t) })
	t.Run("launch stacks", func(t *testing.T) { c.parcaLaunchStacks(ctx, t) })
	t.Run("keys", func(t *testing.T) { c.parcaKeys(ctx, t) })
	t.Run("contents", func(t *testing.T) { c.parcaContents(ctx, t) })
	t.Run("audit", func(t *testing.T) { c.auditClean(t) })
}
