package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A row of a table that gets few rows is a struct …Row of sink/table or a folder of it, with a field for each column. Wherever the program
// makes one, it names every field: a forgotten column would be written empty. Of tables that get many rows, a batch that lacks a column
// panics in the tests of aggregate.
func TestRowsNameEveryColumn(t *testing.T) {
	files := token.NewFileSet()
	rows := map[string][]string{} // fields by the struct's name
	each := func(root string, visit func(f *ast.File)) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err == nil {
				visit(f)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	each("../../sink/table", func(f *ast.File) {
		for name, fields := range rowStructs(f) {
			if rows[name] != nil {
				t.Errorf("there are two structs %s: rename one", name)
			}
			rows[name] = fields
		}
	})
	if len(rows) == 0 {
		t.Fatal("no table has rows")
	}
	made := map[string]bool{}
	each("../..", func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of, ok := literal.Type.(*ast.SelectorExpr)
			if !ok || rows[of.Sel.Name] == nil {
				return true
			}
			made[of.Sel.Name] = true
			for _, field := range missing(rows[of.Sel.Name], literal) {
				t.Errorf("%s: this %s does not fill its column %s", files.Position(literal.Pos()), of.Sel.Name, field)
			}
			return true
		})
	})
	for name := range rows {
		if !made[name] {
			t.Errorf("nobody makes a %s: its table stays empty", name)
		}
	}
}

// rowStructs returns the fields of the file's row structs, by name.
func rowStructs(f *ast.File) map[string][]string {
	out := map[string][]string{}
	for _, d := range f.Decls {
		types, ok := d.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, s := range types.Specs {
			spec := s.(*ast.TypeSpec)
			is, ok := spec.Type.(*ast.StructType)
			if !ok || !strings.HasSuffix(spec.Name.Name, "Row") || spec.Name.Name == "HeadRow" {
				continue
			}
			for _, field := range is.Fields.List {
				if len(field.Names) == 0 {
					out[spec.Name.Name] = append(out[spec.Name.Name], embedded(field.Type))
				}
				for _, name := range field.Names {
					out[spec.Name.Name] = append(out[spec.Name.Name], name.Name)
				}
			}
		}
	}
	return out
}

// embedded returns the name of an embedded field.
func embedded(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// missing returns the fields that a literal does not name.
func missing(fields []string, literal *ast.CompositeLit) (out []string) {
	named := map[string]bool{}
	for _, e := range literal.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				named[key.Name] = true
			}
		}
	}
	for _, field := range fields {
		if !named[field] {
			out = append(out, field)
		}
	}
	return out
}

func TestAForgottenColumnIsNamed(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\ntype PadRow struct { a.HeadRow; N, M int }\nvar _ = "+
		"b.PadRow{HeadRow: h, N: 1}", 0)
	if err != nil {
		t.Fatal(err)
	}
	fields := rowStructs(f)["PadRow"]
	ast.Inspect(f, func(n ast.Node) bool {
		if literal, ok := n.(*ast.CompositeLit); ok {
			if m := missing(fields, literal); len(fields) != 3 || len(m) != 1 || m[0] != "M" {
				t.Errorf("of %v it misses %v, want M", fields, m)
			}
		}
		return true
	})
}
