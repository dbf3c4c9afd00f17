package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/warpline/warpline/sink/engine"
)

// versionCmd prints the versions that a bug report needs.
type versionCmd struct{}

// Run prints one "name value" a line.
func (c *versionCmd) Run(_ context.Context, p *program) error {
	_, err := fmt.Fprintf(p.Stdout, "warpline   %s\nclickhouse %s (embedded engine)\nnats       %s (embedded server)\ngo         %s %s/%s\n",
		version(), engine.Version, dependency("github.com/nats-io/nats-server/v2"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version is the module's version, or the commit that it was built from, or "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func versionLine() string { return "warpline " + version() }

func dependency(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == path {
				return d.Version
			}
		}
	}
	return "unknown"
}
