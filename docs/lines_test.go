package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how long a line of Go or SQL may be; a tab counts as one.
const maxColumns = 140

// A line of Go or SQL fits a screen, in tests too. Generated files, vectors and golden files are as they are.
func TestLinesAreShort(t *testing.T) {
	const root = ".."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			if name == "testdata" || strings.HasPrefix(name, ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".sql" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(string(text), "// Code generated") {
			return nil
		}
		files++
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if columns := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); columns > maxColumns {
				t.Errorf("%s:%d has %d columns, and may have %d: break it", strings.TrimPrefix(path, root+"/"), number, columns, maxColumns)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("only %d files were seen", files)
	}
}
