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

// notSources are folders of stages that are no source's.
var notSources = []string{
	"ingest/inflate", "aggregate/activity", "aggregate/rows", "aggregate/state", "sink/table/tabletest",
}

// A core package never imports a source, and a source never another: only cmd/warpline knows them all. Tests may import what they like.
func TestSourcesAreImportedByNobody(t *testing.T) {
	const module, root = "github.com/warpline/warpline/", "../.."
	sourceOf := func(dir string) string { // "" of what is no source's
		for _, stage := range stages {
			if name, ok := strings.CutPrefix(dir, stage+"/"); ok && !slices.Contains(notSources, dir) {
				name, _, _ = strings.Cut(name, "/")
				return name
			}
		}
		return ""
	}
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "testdata" || strings.HasPrefix(name, ".") && path != root {
			return filepath.SkipDir
		}
		dir := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(path, root), string(os.PathSeparator)))
		p, err := build.Default.ImportDir(path, 0)
		if _, none := err.(*build.NoGoError); none {
			return nil
		}
		if err != nil {
			return err
		}
		own := sourceOf(dir)
		seen[own] = true
		if dir == "cmd/warpline" || strings.HasPrefix(dir, "cmd/warpline/") || dir == "sink/table/tabletest" {
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
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if !seen[s.tables.Name] {
			t.Errorf("source %q has no folder of that name in any of %v", s.tables.Name, stages)
		}
	}
}
