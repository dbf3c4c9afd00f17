package tenant

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DefaultClass is the class of tenants that have no other; its days are those of the service's limits.
const DefaultClass = "default"

const (
	// MaxClasses is how many different pairs of days a service has: each is a ClickHouse partition per day and table.
	MaxClasses = 8
	// MaxDays is how long rows can be kept, 50 years: facts are kept twice as long as raw rows, and ClickHouse's days end in 2149.
	MaxDays = 18250
)

// Class is a retention class: for how many days from arrival raw rows are kept, and rollups and facts.
type Class struct {
	Name   string `json:"name,omitempty"` // "" of days that a key or a tenant has of its own
	Raw    uint16 `json:"raw_days"`
	Rollup uint16 `json:"rollup_days"`
}

// String is the class as flags have it.
func (c Class) String() string { return fmt.Sprintf("%s=%dd/%dd", c.Name, c.Raw, c.Rollup) }

// Same reports whether both keep rows for as long.
func (c Class) Same(o Class) bool { return c.Raw == o.Raw && c.Rollup == o.Rollup }

// covers reports whether c keeps all for at least as long as o.
func (c Class) covers(o Class) bool { return c.Raw >= o.Raw && c.Rollup >= o.Rollup }

var (
	className = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	classDays = regexp.MustCompile(`^([0-9]{1,5})d?/([0-9]{1,5})d?$`)
)

// ParseClass reads a class as NAME=RAW/ROLLUP, both in days with or without a d: short=1d/30d.
func ParseClass(text string) (Class, error) {
	name, days, _ := strings.Cut(text, "=")
	m := classDays.FindStringSubmatch(days)
	if m == nil {
		return Class{}, fmt.Errorf("%q: write NAME=RAW/ROLLUP with days, as short=1d/30d", text)
	}
	raw, _ := strconv.Atoi(m[1])
	rollup, _ := strconv.Atoi(m[2])
	switch {
	case !className.MatchString(name):
		return Class{}, fmt.Errorf("%q: name the class with 1 to 32 of a-z, 0-9 and '-', a letter first", text)
	case name == DefaultClass:
		return Class{}, fmt.Errorf("%q: the days of class default are set by --retention-days and --rollup-days", text)
	case raw < 1 || rollup < raw || rollup > MaxDays:
		return Class{}, fmt.Errorf("%q: keep raw rows at least a day, rollups at least as long, nothing longer than %d days", text,
			MaxDays)
	}
	return Class{Name: name, Raw: uint16(raw), Rollup: uint16(rollup)}, nil
}

// Classes are the classes of a service; the first is DefaultClass.
type Classes []Class

// ParseClasses reads the classes of a service, whose limits d have the days of class default.
func ParseClasses(texts []string, d Limits) (Classes, error) {
	d = d.Or(DefaultLimits())
	all := Classes{{DefaultClass, d.RetentionDays, d.RollupDays}}
	for _, text := range texts {
		c, err := ParseClass(text)
		if err != nil {
			return nil, err
		}
		if _, twice := all.Named(c.Name); twice {
			return nil, fmt.Errorf("class %s is given twice: leave one out", c.Name)
		}
		all = append(all, c)
	}
	if len(all) > MaxClasses {
		return nil, fmt.Errorf("%d classes with class default: a service has at most %d, since each is a ClickHouse partition per day and table",
			len(all), MaxClasses)
	}
	return all, nil
}

// Named returns the class of a name.
func (c Classes) Named(name string) (Class, bool) {
	i := slices.IndexFunc(c, func(o Class) bool { return o.Name == name })
	if i < 0 {
		return Class{}, false
	}
	return c[i], true
}

// String lists the classes.
func (c Classes) String() string {
	words := make([]string, len(c))
	for i := range c {
		words[i] = c[i].String()
	}
	return strings.Join(words, ", ")
}

// Give gives l a class by its name, "" for none. The days stand beside the name: they hold where a gateway does not know the class.
func (c Classes) Give(l *Limits, name string) error {
	if name == "" {
		l.RetentionClass, l.RetentionDays, l.RollupDays = "", 0, 0
		return nil
	}
	of, ok := c.Named(name)
	if !ok {
		return fmt.Errorf("there is no retention class %q: use one of %s; gateways are given them with --retention-class", name, c)
	}
	l.RetentionClass, l.RetentionDays, l.RollupDays = of.Name, of.Raw, of.Rollup
	return nil
}

// Days returns l with the days that its class has now, and no more than there can be. Of a class that is not there, the days stay that it
// had when it was given.
func (c Classes) Days(l Limits) Limits {
	if of, ok := c.Named(l.RetentionClass); ok && l.RetentionClass != "" {
		l.RetentionDays, l.RollupDays = of.Raw, of.Rollup
	}
	l.RetentionDays, l.RollupDays = min(l.RetentionDays, MaxDays), min(l.RollupDays, MaxDays) // older builds stored any number
	return l
}

// Shorter reports whether no row of l, a key's with days of a class, is kept longer than the tenant's of says.
func (l Limits) Shorter(of Limits) bool {
	return (of.RetentionDays == 0 || l.RetentionDays <= of.RetentionDays) && (of.RollupDays == 0 || l.RollupDays <= of.RollupDays)
}

// Nearest returns the class for days that no class has: of those that keep all at least as long the shortest, or else the longest that
// there is.
func (c Classes) Nearest(days Class) Class {
	best := -1
	shorter := func(a, b Class) bool { return cmp.Or(cmp.Compare(a.Raw, b.Raw), cmp.Compare(a.Rollup, b.Rollup)) < 0 }
	for i := range c {
		if c[i].covers(days) && (best < 0 || shorter(c[i], c[best])) {
			best = i
		}
	}
	if best < 0 {
		for i := range c {
			if best < 0 || shorter(c[best], c[i]) {
				best = i
			}
		}
	}
	return c[best]
}
