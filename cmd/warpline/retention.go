package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// classesFlag says which retention classes a service has.
type classesFlag struct {
	RetentionClass []string `name:"retention-class" placeholder:"NAME=RAW/ROLLUP" help:"${retention_classes}"`
}

// classes are those and class default, whose days the limits have.
func (f classesFlag) classes(d tenant.Limits) (tenant.Classes, error) {
	return tenant.ParseClasses(f.RetentionClass, d)
}

func (f classesFlag) check(s *settings, d tenant.Limits) error {
	if _, err := f.classes(d); err != nil {
		return fmt.Errorf("%s: %w", s.name("retention-class"), err)
	}
	return nil
}

// classFlag gives a new key or tenant a retention class.
type classFlag struct {
	RetentionClass string `name:"retention-class" placeholder:"NAME" help:"${retention_class}"`
}

func (f classFlag) check(s *settings, l tenant.Limits) error {
	if f.of(s) != "" && (l.RetentionDays != 0 || l.RollupDays != 0) {
		return errClassAndDays(s)
	}
	return nil
}

// of is the class that is meant, "" for none. The environment and the file of --config may have the classes of a service under the same
// name, and those are not meant.
func (f classFlag) of(s *settings) string {
	if strings.Contains(f.RetentionClass, "=") && !s.named["retention-class"] {
		return ""
	}
	return f.RetentionClass
}

// give looks the class up and puts it into limits.
func (f classFlag) give(ctx context.Context, s *settings, keys *ingest.Keys, l *tenant.Limits) error {
	if f.of(s) == "" {
		return nil
	}
	return giveClass(ctx, keys, l, f.of(s))
}

func giveClass(ctx context.Context, keys *ingest.Keys, l *tenant.Limits, name string) error {
	if name == "" {
		return tenant.Classes{}.Give(l, "")
	}
	classes, err := ingest.ReadClasses(ctx, keys.Bucket())
	if err != nil {
		return err
	}
	return classes.Give(l, name)
}

// changeClassFlag changes the retention class of a key or a tenant; "" is none again.
type changeClassFlag struct {
	RetentionClass *string `name:"retention-class" placeholder:"NAME" help:"${change_retention_class}"`
}

func (f changeClassFlag) check(s *settings, c changeLimitFlags) error {
	if f.of(s) != nil && (c.RetentionDays != nil || c.RollupDays != nil) {
		return errClassAndDays(s)
	}
	return nil
}

func (f changeClassFlag) of(s *settings) *string {
	if f.RetentionClass != nil && strings.Contains(*f.RetentionClass, "=") && !s.named["retention-class"] {
		return nil
	}
	return f.RetentionClass
}

// look returns what gives limits the class; whoever names days leaves the class.
func (f changeClassFlag) look(ctx context.Context, s *settings, keys *ingest.Keys, c changeLimitFlags) (func(*tenant.Limits), error) {
	name := f.of(s)
	if name == nil {
		return func(l *tenant.Limits) {
			if c.RetentionDays != nil || c.RollupDays != nil {
				l.RetentionClass = ""
			}
		}, nil
	}
	var of tenant.Limits
	if err := giveClass(ctx, keys, &of, *name); err != nil {
		return nil, err
	}
	return func(l *tenant.Limits) {
		l.RetentionClass, l.RetentionDays, l.RollupDays = of.RetentionClass, of.RetentionDays, of.RollupDays
	}, nil
}

func errClassAndDays(s *settings) error {
	return fmt.Errorf("%s says the days: leave %s and %s out", s.name("retention-class"), s.name("retention-days"), s.name("rollup-days"))
}
