package tenant_test

import (
	"testing"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// A key that has a successor ends, and it is not forgotten how long it was made to work.
func TestLifeOfRotatedKeys(t *testing.T) {
	made := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	soon, month := made.Add(time.Hour), 720*time.Hour
	for name, c := range map[string]struct {
		key  tenant.Key
		life time.Duration
		ends time.Time
	}{
		"for ever":                 {tenant.Key{Created: made}, 0, soon},
		"for a month":              {tenant.Key{Created: made, Expires: made.Add(month)}, month, soon},
		"for less than that":       {tenant.Key{Created: made, Expires: made.Add(time.Minute)}, time.Minute, made.Add(time.Minute)},
		"until the end of the age": {tenant.Key{Created: made, Expires: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, 1<<63 - 1, soon},
	} {
		k := c.key
		for range 3 {
			k.EndWith(soon)
			if got := k.Life(); !k.Expires.Equal(c.ends) || (got-c.life).Abs() > time.Second {
				t.Errorf("%s: ends %v and lasted %v, want %v and %v", name, k.Expires, got, c.ends, c.life)
			}
		}
	}
}
