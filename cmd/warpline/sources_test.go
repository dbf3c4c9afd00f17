package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A stage knows no source, and a source knows no other: sources.go alone has the list. Who adds a source edits nothing in a stage's core. A
// source in one stage may use the same source in another, as a fold uses its tables.
func TestNoStageImportsASource(t *testing.T) {
	const module = "github.com/warpline/warpline/"
	stages := []string{"ingest", "aggregate", "sink/table"}
	// source is the name of the source whose folder in a stage this is, "" for other folders.
	listed := map[string]bool{}
	source := func(dir string) string {
		for _, stage := range stages {
			if name, ok := strings.CutPrefix(dir, stage+"/"); ok {
				if name, _, _ = strings.Cut(name, "/"); listed[stage+"/"+name] {
					return name
				}
			}
		}
		return ""
	}
	imports := func(file string) (list []string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if dir, ok := strings.CutPrefix(path, module); ok {
				list = append(list, dir)
			}
		}
		return list
	}
	for _, dir := range imports("sources.go") {
		listed[dir] = true
	}
	for _, stage := range stages {
		delete(listed, stage)
	}
	if len(listed) == 0 {
		t.Fatal("sources.go lists no source")
	}
	const root = "../.."
	for _, stage := range stages {
		err := filepath.WalkDir(filepath.Join(root, stage), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			at, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			from := source(path.Dir(filepath.ToSlash(at)))
			for _, dir := range imports(file) {
				if of := source(dir); of != "" && of != from {
					t.Errorf("%s imports %s: declare what it needs of a source in the stage, and have sources.go give it", at, dir)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
