package aggregate_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The core imports no source, nor what sources share, and no source another: who adds one edits nothing here.
func TestSourcesStandAlone(t *testing.T) {
	below := map[string]bool{"state": true, "rows": true} // what the core may import; activity stands above it, below the sources
	const root = "github.com/warpline/warpline/aggregate"
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		seen++
		from := filepath.ToSlash(filepath.Dir(path))
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			to, ours := strings.CutPrefix(name, root+"/")
			if name != root && !ours {
				continue
			}
			switch {
			case ours && below[to]:
			case from == "." || below[from]:
				t.Errorf("%s: the core imports %s", path, name)
			case from == "activity" && ours:
				t.Errorf("%s: what sources share imports the source %s", path, name)
			case ours && to != "activity":
				t.Errorf("%s: a source imports the source %s", path, name)
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Fatalf("%d files: %v", seen, err)
	}
}
