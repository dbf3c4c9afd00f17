package cost

import (
	"cmp"
	"fmt"

	"github.com/warpline/warpline/proto/tenant"
)

// Days are for how long rows are kept, and Of says whose days these are.
type Days struct {
	Raw, Rollup float64
	Of          string
}

// DaysOf are those of a tenant's record and the retention classes of the service, as gateways give them to what it sends; nil for no
// record, and for all tenants. Keys with days of their own are not looked at.
func DaysOf(record *tenant.Record, classes tenant.Classes) Days {
	d := tenant.DefaultLimits()
	kept := Days{float64(d.RetentionDays), float64(d.RollupDays), "the program's own"}
	if len(classes) > 0 {
		kept = Days{float64(classes[0].Raw), float64(classes[0].Rollup), "class " + classes[0].Name}
	}
	if record == nil {
		return kept
	}
	l := classes.Days(record.Limits)
	if l.RetentionDays == 0 && l.RollupDays == 0 {
		return kept
	}
	kept.Raw = cmp.Or(float64(l.RetentionDays), kept.Raw)
	kept.Rollup = cmp.Or(float64(l.RollupDays), kept.Rollup)
	if kept.Of = "tenant " + record.Name; l.RetentionClass != "" {
		kept.Of = fmt.Sprintf("class %s of tenant %s", l.RetentionClass, record.Name)
	} else if of := (tenant.Class{Raw: uint16(kept.Raw), Rollup: uint16(kept.Rollup)}); len(classes) > 0 {
		for _, c := range classes {
			if c.Same(of) {
				kept.Of += ", which are those of class " + c.Name
				break
			}
		}
	}
	return kept
}

// Or are the days that somebody gave, 0 for none, or else those of d.
func (d Days) Or(raw, rollup float64) Days {
	if raw > 0 || rollup > 0 {
		d = Days{cmp.Or(raw, d.Raw), cmp.Or(rollup, d.Rollup), "as given"}
	}
	return d
}
