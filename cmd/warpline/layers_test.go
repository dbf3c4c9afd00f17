package main

import (
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stages are the packages under which each source has a folder of its own.
var stages = []string{"ingest", "aggregate", "sink/table"}

// notSources are folders of stages that are not a source's.
var notSources = []string{
	"ingest/active", "ingest/doorbook", "ingest/inflate", "ingest/peers", "ingest/pending", "ingest/quota",
	"ingest/rpc", "ingest/shares",
	"aggregate/activity", "aggregate/rows", "aggregate/state", "aggregate/symbol",
	"sink/table/tabletest",
}

// A core package never imports a source, and a source never another: only cmd/warpline knows them all, and gives them to package service.
// Tests may import what they like.
func TestSourcesAreImportedByNobody(t *testing.T) {
	const module = "github.com/warpline/warpline/"
	sourceOf := func(dir string) string { // "" of what is not a source's
		for _, stage := range stages {
			if name, ok := strings.CutPrefix(dir, stage+"/"); ok && !slices.Contains(notSources, dir) {
				name, _, _ = strings.Cut(name, "/")
				return name
			}
		}
		return ""
	}
	seen := map[string]bool{}
	eachFolder(t, func(dir, path string) error {
		p, err := build.Default.ImportDir(path, 0)
		if _, none := err.(*build.NoGoError); none {
			return nil
		}
		if err != nil {
			return err
		}
		own := sourceOf(dir)
		seen[own] = true
		if dir == "cmd/warpline" || dir == "sink/table/tabletest" {
			return nil
		}
		for _, path := range p.Imports {
			other := sourceOf(strings.TrimPrefix(path, module))
			switch {
			case !strings.HasPrefix(path, module) || other == "" || other == own:
			case own == "":
				t.Errorf("%s imports %s of source %s: declare what it needs as an interface, and give it the source by Config", dir, path, other)
			default:
				t.Errorf("%s imports %s: a source never imports another, what both fill is the stage's own", dir, path)
			}
		}
		return nil
	})
	for _, s := range sources {
		if !seen[s.door.Name] && !seen[s.tables.Name] {
			t.Errorf("source %q has no folder of that name in any of %v", s.tables.Name, stages)
		}
	}
}

// Flags and help are of the commands: package service is given plain values, and can run where there is no command line.
func TestServiceKnowsNoCommandLine(t *testing.T) {
	p, err := build.Default.ImportDir("service", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"flag", "github.com/alecthomas/kong", "github.com/schollz/progressbar/v3", "text/tabwriter"} {
		if slices.Contains(p.Imports, path) {
			t.Errorf("cmd/warpline/service imports %s: leave it to the commands", path)
		}
	}
}

// maxFiles is how many files a package may have: more are not seen at one glance.
const maxFiles = 40

// A package that grows beyond what one can look through becomes two.
func TestPackagesHaveFewFiles(t *testing.T) {
	eachFolder(t, func(dir, path string) error {
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		if len(files) > maxFiles {
			t.Errorf("%s has %d files beside its tests, and at most %d are allowed: give a part a package of its own", dir, len(files), maxFiles)
		}
		return err
	})
}

// eachFolder visits the folders of the repository that may hold packages; dir is the name from its root, path from here.
func eachFolder(t *testing.T, visit func(dir, path string) error) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "testdata" || strings.HasPrefix(name, ".") && path != root {
			return filepath.SkipDir
		}
		return visit(filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(path, root), string(os.PathSeparator))), path)
	})
	if err != nil {
		t.Fatal(err)
	}
}
