package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// longestSleep is how long a test outside e2e may sleep: what takes longer is waited for by a condition, or by a clock that the test moves.
const longestSleep = time.Second

// servers are those whose limits of time have to pass: a comment at a longer sleep names one of them, and the limit.
var servers = []string{"NATS", "ClickHouse"}

func TestNoTestSleepsLong(t *testing.T) {
	tests, all := token.NewFileSet(), map[string][]*ast.File{} // by folder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join("..", "..", "cmd", "warpline", "e2e") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(tests, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		all[filepath.Dir(path)] = append(all[filepath.Dir(path)], f)
		return err
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("%d folders with tests: %v", len(all), err)
	}
	for _, files := range all {
		for _, s := range longSleeps(tests, files) {
			t.Errorf("%s: wait for a condition, or give the fold its time; where a limit of a real server has to pass, say which and whose (%s) "+
				"in a comment on this line or the one before", s, strings.Join(servers, ", "))
		}
	}
}

// longSleeps returns where the files of a package sleep for longer than longestSleep, by a constant and without a server's name.
func longSleeps(set *token.FileSet, files []*ast.File) (found []string) {
	constants := map[string]ast.Expr{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				for _, s := range d.Specs {
					for i, name := range s.(*ast.ValueSpec).Names {
						if values := s.(*ast.ValueSpec).Values; i < len(values) {
							constants[name.Name] = values[i]
						}
					}
				}
			}
			return true
		})
	}
	for _, f := range files {
		excused := map[int]bool{} // lines
		for _, c := range f.Comments {
			for _, server := range servers {
				if strings.Contains(c.Text(), server) {
					excused[set.Position(c.Pos()).Line], excused[set.Position(c.End()).Line+1] = true, true
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isTime(call.Fun, "Sleep") || len(call.Args) != 1 {
				return true
			}
			at := set.Position(call.Pos())
			if d, ok := constant(call.Args[0], constants, 0); ok && time.Duration(d) > longestSleep && !excused[at.Line] {
				found = append(found, fmt.Sprintf("%s sleeps %v", at, time.Duration(d)))
			}
			return true
		})
	}
	return found
}

func isTime(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "time"
}

// constant is the value of an expression of numbers, units of time and the package's constants.
func constant(e ast.Expr, constants map[string]ast.Expr, depth int) (v float64, ok bool) {
	if depth > 20 { // constants that name each other do not compile; those of two functions may share a name
		return 0, false
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(strings.ReplaceAll(e.Value, "_", ""), 64)
		return v, err == nil
	case *ast.ParenExpr:
		return constant(e.X, constants, depth+1)
	case *ast.Ident:
		if c := constants[e.Name]; c != nil {
			return constant(c, constants, depth+1)
		}
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
			"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		if unit := units[e.Sel.Name]; unit != 0 && isTime(e, e.Sel.Name) {
			return float64(unit), true
		}
	case *ast.CallExpr:
		if isTime(e.Fun, "Duration") && len(e.Args) == 1 {
			return constant(e.Args[0], constants, depth+1)
		}
	case *ast.BinaryExpr:
		x, okX := constant(e.X, constants, depth+1)
		y, okY := constant(e.Y, constants, depth+1)
		switch e.Op {
		case token.ADD:
			return x + y, okX && okY
		case token.SUB:
			return x - y, okX && okY
		case token.MUL:
			return x * y, okX && okY
		case token.QUO:
			return x / y, okX && okY && y != 0
		}
	}
	return 0, false
}

func TestALongSleepIsFound(t *testing.T) {
	const text = `package x
const walk = 11 * time.Second
func f() {
	time.Sleep(walk) // sessions are looked through every ten
	time.Sleep(time.Second)
	time.Sleep(1100 * time.Millisecond)
	time.Sleep(time.Duration(2) * time.Second) // NATS keeps a lease for a second at least
	// ClickHouse looks for
	// parts to drop every minute.
	time.Sleep(time.Minute + 500*time.Millisecond)

	time.Sleep(2*walk - 1)
	time.Sleep(time.Duration(n) * time.Second)
}`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "x_test.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	want := "[x_test.go:4:2 sleeps 11s x_test.go:6:2 sleeps 1.1s x_test.go:12:2 sleeps 21.999999999s]"
	if got := fmt.Sprint(longSleeps(set, []*ast.File{f})); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}
