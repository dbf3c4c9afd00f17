// Package docs_test holds the pages against the code: what they name has to be there. Nothing here needs a server but the tests of SQL.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the top of the repository.
const root = ".."

// pages are all pages that people read, by their paths from the top.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = read(t, path)
		}
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README is what people read first: it stays short, and what does not fit goes to another page.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, filepath.Join(root, "README.md")), "\n"); n > 120 {
		t.Errorf("README.md has %d lines, at most 120 are right: move some to docs/", n)
	}
}

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	quoted  = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// prose is a page without its blocks of code, where "](" is not a link.
func prose(text string) string {
	lines := strings.Split(fenced.ReplaceAllString(text, ""), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "    ") {
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}

// anchors are the names that headings can be linked by, as GitHub makes them.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(prose(text), -1) {
		name := strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(m[1], "")), " ", "-")
		for n, unique := 1, name; ; n++ {
			if !names[unique] {
				names[unique] = true
				break
			}
			unique = name + "-" + strconv.Itoa(n)
		}
	}
	return names
}

// Every link in every page leads to a file, and every #anchor to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
	all, n := pages(t), 0
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(quoted.ReplaceAllString(prose(text), ""), -1) {
			if n++; strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), filepath.FromSlash(file))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: there is no file %s", name, m[1], target)
				continue
			}
			if anchor != "" && !anchors(read(t, filepath.Join(root, target)))[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", name, m[1], target)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d links found", n)
	}
}

func TestAnchorsAreAsGitHubMakesThem(t *testing.T) {
	got := anchors("# Proxies, HTTP/2 and TLS\n## `warpline send`\n## What is `x_y`?\n    # not a heading\n```\n# nor this\n```\n" +
		"## Run\n## Run\n")
	for _, want := range []string{"proxies-http2-and-tls", "warpline-send", "what-is-x_y", "run", "run-1"} {
		if !got[want] {
			t.Errorf("%s is not among %v", want, got)
		}
	}
	if len(got) != 5 {
		t.Errorf("%v", got)
	}
}

// goFiles walks the Go files of a folder.
func goFiles(t *testing.T, dir string, tests bool, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && strings.HasSuffix(path, "_test.go") == tests {
			visit(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testsBelow are the names of the tests, benchmarks and fuzz targets of a folder and those in it, by folder.
func testsBelow(t *testing.T) map[string][]string {
	t.Helper()
	named := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	all := map[string][]string{}
	goFiles(t, ".", true, func(path string) {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(read(t, path), -1) {
			all[dir] = append(all[dir], m[1])
		}
	})
	return all
}

// Every test that a page names is there, by its whole name or by how it begins, and so is every test that a command in a page runs.
func TestPagesNameTestsThatExist(t *testing.T) {
	byDir, n := testsBelow(t), 0
	var names []string
	for _, of := range byDir {
		names = append(names, of...)
	}
	name := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	command := regexp.MustCompile(`go test ((?:\./[\w./]*\s+)+)-run '?([\w|$^]+)'?`)
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" { // of what was
			continue
		}
		for _, test := range name.FindAllString(text, -1) {
			n++
			if !slices.ContainsFunc(names, func(have string) bool { return strings.HasPrefix(have, test) }) {
				t.Errorf("%s names %s, which no package has", page, test)
			}
		}
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			for pattern := range strings.SplitSeq(m[2], "|") {
				run, err := regexp.Compile(pattern)
				if err != nil {
					t.Errorf("%s: %s: %v", page, m[0], err)
					continue
				}
				n++
				found := pattern == "^$"
				for dir := range strings.FieldsSeq(m[1]) {
					below, tree := strings.CutSuffix(filepath.Clean(dir), "/...")
					for have, of := range byDir {
						found = found || (have == below || tree) && slices.ContainsFunc(of, run.MatchString)
					}
				}
				if !found {
					t.Errorf("%s: %s: no test is called %s", page, m[0], pattern)
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d names found", n)
	}
}

// Every file that a page names is there, and so is every function that it names in front of a file: `owner.append`
// (`aggregate/publish.go`).
func TestPagesNameCodeThatExists(t *testing.T) {
	path := regexp.MustCompile("`(\\w[\\w/.-]*/[\\w.-]+\\.(?:go|sql|yml|json|jsonl))`")
	function := regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)`\\s+\\(`([\\w/]+\\.go)`\\)")
	n := 0
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" { // of what was
			continue
		}
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			n++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, m := range function.FindAllStringSubmatch(text, -1) {
			receiver, name, file := m[1], m[2], m[3]
			source, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				continue // told above
			}
			declared := regexp.MustCompile(`(?m)^func ` + name + `[\[(]|^type ` + name + `\b|^(?:var|const) ` + name + `\b`)
			if receiver != "" {
				declared = regexp.MustCompile(`(?m)^func \(\w+ \*?` + receiver + `\) ` + name + `\(`)
			}
			if n++; !declared.Match(source) {
				t.Errorf("%s names %s, which %s does not declare", page, m[0], file)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d names found", n)
	}
}

// Every package is in the section Packages of ARCHITECTURE.md, and every package that it has is there.
func TestPackagesAreInTheArchitecture(t *testing.T) {
	_, section, _ := strings.Cut(read(t, filepath.Join(root, "ARCHITECTURE.md")), "\n## Packages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named, have := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(section) {
		if first, _, row := strings.Cut(strings.TrimPrefix(line, "| "), " |"); row {
			for _, m := range regexp.MustCompile("`([\\w/]+)`").FindAllStringSubmatch(first, -1) {
				named[m[1]] = true
			}
		}
	}
	for _, tests := range []bool{false, true} {
		goFiles(t, ".", tests, func(path string) {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			have[filepath.ToSlash(dir)] = true
		})
	}
	for dir := range have {
		if !named[dir] {
			t.Errorf("ARCHITECTURE.md does not say what package %s is for", dir)
		}
	}
	for dir := range named {
		if !have[dir] {
			t.Errorf("ARCHITECTURE.md has package %s, which is not there", dir)
		}
	}
}

// troubles are the texts that the code logs behind "trouble: ", each as the parts of it that do not change.
func troubles(t *testing.T) (all [][]string) {
	t.Helper()
	for _, dir := range []string{"cmd/warpline", "broker"} {
		fset, consts := token.NewFileSet(), map[string]string{}
		var files []*ast.File
		goFiles(t, dir, false, func(path string) {
			f, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			ast.Inspect(f, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						if parts := literals(v.Values[i], nil); len(parts) == 1 {
							consts[name.Name] = parts[0]
						}
					}
				}
				return true
			})
		})
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt: // t[what] = why
					if index, ok := n.Lhs[0].(*ast.IndexExpr); ok {
						if into, ok := index.X.(*ast.Ident); ok && into.Name == "t" {
							all = append(all, literals(index.Index, consts))
						}
					}
				case *ast.CallExpr: // log.Warn("trouble: …")
					if len(n.Args) > 0 {
						if parts := literals(n.Args[0], consts); len(parts) > 0 && strings.HasPrefix(parts[0], "trouble: ") {
							parts[0] = strings.TrimPrefix(parts[0], "trouble: ")
							all = append(all, parts)
						}
					}
				}
				return true
			})
		}
	}
	return all
}

// literals are the texts in an expression that is put together of texts and variables.
func literals(e ast.Expr, consts map[string]string) (parts []string) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			parts = append(parts, text)
		}
	case *ast.Ident:
		if text, ok := consts[e.Name]; ok {
			parts = append(parts, text)
		}
	case *ast.BinaryExpr:
		parts = append(literals(e.X, consts), literals(e.Y, consts)...)
	}
	return parts
}

// Every trouble that can be logged has a line in docs/operate.md that says what to do.
func TestTroublesHaveALine(t *testing.T) {
	_, section, found := strings.Cut(read(t, "operate.md"), "\n## Troubleshooting\n")
	if !found {
		t.Fatal("operate.md has no section Troubleshooting")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	n := 0
	for _, parts := range troubles(t) {
		for _, part := range parts {
			// The page quotes the beginning: up to where the text begins to explain.
			if at := strings.IndexAny(part, ";:,"); at >= 0 {
				part = part[:at]
			}
			words := strings.Fields(part)
			if len(words) == 0 {
				continue
			}
			if n++; !strings.Contains(section, strings.Join(words[:min(5, len(words))], " ")) {
				t.Errorf("operate.md does not say what to do about trouble %q", strings.Join(parts, "…"))
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d troubles found", n)
	}
}
