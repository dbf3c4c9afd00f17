package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/tenant"
)

// classesName is where the bucket of keys has the retention classes of the gateways, for commands: gateways themselves take them from their
// configuration.
const classesName = "retention-classes"

// ReadClasses returns the retention classes of the gateway that was started last, from the bucket stream.KeysBucket.
func ReadClasses(ctx context.Context, kv jetstream.KeyValue) (tenant.Classes, error) {
	e, err := kv.Get(ctx, classesName)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, errors.New("no gateway has stored its retention classes yet: start one of this version")
	}
	if err != nil {
		return nil, fmt.Errorf("read the retention classes: %w", err)
	}
	var c tenant.Classes
	if err := json.Unmarshal(e.Value(), &c); err != nil || len(c) == 0 {
		return nil, fmt.Errorf("what is stored as the retention classes is something else (%v): start a gateway anew", err)
	}
	return c, nil
}

// tellClasses stores the classes of this gateway once, where others are stored.
func (k *keyring) tellClasses(ctx context.Context) {
	if k.told || k.reads {
		return
	}
	value, err := json.Marshal(k.retention.classes)
	if err != nil {
		k.log.Error("BUG: retention classes", "err", err)
		return
	}
	e, err := k.kv.Get(ctx, classesName)
	if err == nil && bytes.Equal(e.Value(), value) {
		k.told = true
		return
	}
	if _, err := k.kv.Put(ctx, classesName, value); err != nil {
		k.log.Warn("the retention classes could not be stored for commands; it is tried again when NATS is connected anew", "err", err)
		return
	}
	k.told = true
	k.log.Info("retention classes", "are", k.retention.classes.String())
}

// retention gives uploads one of at most tenant.MaxClasses pairs of days: those of the classes, and beside them those that keys have of
// their own, the oldest keys' first. Every gateway comes to the same, since it follows from what the bucket has. The keyring's lock guards
// it.
type retention struct {
	classes tenant.Classes       // of this gateway; not changed
	asked   map[string]askedDays // by the hash of the key, of days that no class has
	all     tenant.Classes       // classes, and what else there is room for
}

// askedDays is what a valid key would have.
type askedDays struct {
	days  tenant.Class
	since time.Time // when the key was made
}

func newRetention(classes tenant.Classes) retention {
	return retention{classes: classes, asked: map[string]askedDays{}, all: classes}
}

// ask notes the days of a key, and reports whether they are news: then weigh is to be called.
func (r *retention) ask(hash string, key tenant.Key, limits tenant.Limits) (news bool) {
	days := tenant.Class{Raw: limits.RetentionDays, Rollup: limits.RollupDays}
	valid, _ := key.Valid(time.Now())
	if !valid || slices.ContainsFunc(r.classes, days.Same) {
		return r.forget(hash)
	}
	next := askedDays{days, key.Created}
	before, there := r.asked[hash]
	r.asked[hash] = next
	return !there || before != next
}

func (r *retention) forget(hash string) (news bool) {
	_, there := r.asked[hash]
	delete(r.asked, hash)
	return there
}

// weigh finds out what there is room for, and reports whether that has changed.
func (r *retention) weigh() bool {
	first := map[tenant.Class]time.Time{}
	for _, a := range r.asked {
		if at, there := first[a.days]; !there || a.since.Before(at) {
			first[a.days] = a.since
		}
	}
	own := slices.SortedFunc(maps.Keys(first), func(a, b tenant.Class) int {
		return cmp.Or(first[a].Compare(first[b]), cmp.Compare(a.Raw, b.Raw), cmp.Compare(a.Rollup, b.Rollup))
	})
	all := slices.Concat(r.classes, own[:min(len(own), max(0, tenant.MaxClasses-len(r.classes)))])
	if slices.Equal(all, r.all) {
		return false
	}
	r.all = all
	return true
}

// fit returns limits with days that there is room for: they keep nothing shorter than was asked for, where that is possible.
func (r *retention) fit(limits tenant.Limits) tenant.Limits {
	c := r.all.Nearest(tenant.Class{Raw: limits.RetentionDays, Rollup: limits.RollupDays})
	limits.RetentionDays, limits.RollupDays = c.Raw, c.Rollup
	return limits
}
