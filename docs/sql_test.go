package docs_test

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/docs"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

//go:generate go test . -run TestSQLPage -update

var update = flag.Bool("update", false, "write docs/sql.md anew")

// schema is a connection to a database that has every table and view, and no row.
func schema(t *testing.T) driver.Conn {
	t.Helper()
	e := enginetest.Shared(t)
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{e.TCPAddr()},
		Auth: clickhouse.Auth{Username: e.User(), Password: e.Password(), Database: table.DefaultDatabase},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ensured.Do(func() { ensuredErr = ensure(e.TCPAddr(), e.User(), e.Password()) })
	if ensuredErr != nil {
		t.Fatal(ensuredErr)
	}
	return conn
}

var (
	ensured    sync.Once // the schema is made once for all tests
	ensuredErr error
)

func ensure(addr, user, password string) error {
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{addr}, Auth: clickhouse.Auth{Username: user, Password: password}})
	if err != nil {
		return err
	}
	defer conn.Close()
	return tabletest.Schema().Ensure(context.Background(), conn, table.Options{})
}

// titles are what the sources are called on the page, in its order; "" is what all share. One that is not here comes last, under its own
// name.
var titles = []struct{ source, title string }{{"", "Core"}, {"gpuflight", "GPU Flight"}, {"telemetry", "Memory telemetry"}}

// entry is a table or view as the page shows it.
type entry struct {
	name    string
	source  string
	says    string // what a row is
	more    string
	columns [][3]string // name, type, comment
}

// firstSentence ends at the first full stop before white space or the end.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for i, r := range text {
		if r == '.' && (i == len(text)-1 || text[i+1] == ' ') && !strings.HasSuffix(text[:i], "e.g") {
			return text[:i+1]
		}
	}
	return text
}

// tables reads of the Go files what the comments of the tables' variables say, and of the tables the rest.
func tables(t *testing.T) (all []entry) {
	t.Helper()
	says, goNames := map[string]string{}, map[string]string{}
	goFiles(t, "sink/table", false, func(path string) {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				spec, found := s.(*ast.ValueSpec), false
				ast.Inspect(spec, func(n ast.Node) bool { // its first text that is a table's name: others are of tables that it refers to
					lit, ok := n.(*ast.BasicLit)
					if found || !ok || lit.Kind != token.STRING {
						return !found
					}
					name, err := strconv.Unquote(lit.Value)
					if err != nil || tabletest.Schema().Table(name) == nil {
						return true
					}
					found = true
					doc := spec.Doc
					if doc == nil {
						doc = decl.Doc
					}
					goNames[spec.Names[0].Name] = name
					_, text, _ := strings.Cut(firstSentence(doc.Text()), " ") // it begins with the variable's name
					says[name] = text
					return true
				})
			}
		}
	})
	maps.DeleteFunc(goNames, func(name, _ string) bool { return name == strings.ToUpper(name) }) // PTX is a word of its own
	word := regexp.MustCompile(`\[?\b(?:` + strings.Join(slices.Collect(maps.Keys(goNames)), "|") + `)\b\]?`)
	for _, of := range tabletest.Schema().Sources() {
		for _, tab := range of.Tables {
			text := says[tab.Name]
			if text == "" {
				t.Errorf("table %s has no comment that says what a row is, in front of its variable in sink/table", tab.Name)
				continue
			}
			text = word.ReplaceAllStringFunc(text, func(name string) string { return "`" + goNames[strings.Trim(name, "[]")] + "`" })
			runes := []rune(text)
			e := entry{name: tab.Name, source: of.Name, says: string(append([]rune{unicode.ToUpper(runes[0])}, runes[1:]...))}
			e.more = "Kept: " + kept(tab) + ". Sorted by: `" + strings.Join(tab.OrderBy, ", ") + "`."
			for _, c := range tab.Columns {
				e.columns = append(e.columns, [3]string{c.Name, c.Type, c.Comment})
			}
			all = append(all, e)
		}
	}
	return all
}

// kept says for how long a table has its rows.
func kept(tab *table.Table) string {
	days := regexp.MustCompile(`toIntervalDay\((\d+)\) DELETE`)
	switch m := days.FindStringSubmatch(tab.TTL); {
	case tab.Retention == table.Raw:
		return "`--retention-days` (7)"
	case tab.Retention == table.Rollup && tab.Column("bucket") != nil:
		return fmt.Sprintf("`--rollup-days` (395); minutes become hours after %d days", table.CoarsenDays)
	case tab.Retention == table.Rollup, tab.Retention == table.Fact:
		return "`--rollup-days` (395)"
	case m != nil:
		return m[1] + " days"
	}
	return "until it is deleted"
}

// views asks the engine for the columns, and takes what a row is from the comment that its file begins with.
func views(t *testing.T, conn driver.Conn) (all []entry) {
	t.Helper()
	columns := map[string][][3]string{}
	const described = "SELECT table, name, type FROM system.columns WHERE database = $1 ORDER BY table, position"
	rows, err := conn.Query(t.Context(), described, table.DefaultDatabase)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var of, name, typ string
		if err := rows.Scan(&of, &name, &typ); err != nil {
			t.Fatal(err)
		}
		columns[of] = append(columns[of], [3]string{name, typ})
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, v := range tabletest.Schema().Views(table.Options{}) {
		e := entry{name: v.Name, source: v.Source, says: v.Row, more: v.About}
		if e.says == "" {
			t.Errorf("view %s does not begin with a comment that says what a row is", v.Name)
		}
		if base := v.Name + "_data"; tabletest.Schema().Table(base) != nil {
			e.more = strings.TrimSpace(e.more + fmt.Sprintf(" Table [`%[1]s`](#%[1]s) explains some of the columns.", base))
		}
		if e.columns = columns[v.Name]; e.columns == nil { // a view that takes parameters has its columns only once it is asked
			rows, err := conn.Query(t.Context(), "SELECT * FROM "+v.From()+" LIMIT 0")
			if err != nil {
				t.Fatalf("view %s: %v", v.Name, err)
			}
			for _, c := range rows.ColumnTypes() {
				e.columns = append(e.columns, [3]string{c.Name(), c.DatabaseTypeName()})
			}
			rows.Close()
		}
		all = append(all, e)
	}
	return all
}

const intro = `# SQL reference

<!-- Generated by "go generate ./docs" from sink/table. Do not edit. -->

Every view and table of database ` + "`warpline`" + `, with all columns. Ask the views: their names and columns stay, and they find names
that came late. The tables behind them are what the sink fills; a name that ends in ` + "`_data`" + ` is the table behind the view
without it.
[queries.md](queries.md) says which view answers which question.

`

// page is docs/sql.md as it should be.
func page(t *testing.T) string {
	t.Helper()
	var s strings.Builder
	s.WriteString(intro)
	var sections []string
	for _, kind := range []struct {
		title   string
		entries []entry
	}{{"views", views(t, schema(t))}, {"tables", tables(t)}} {
		bySource := map[string][]entry{}
		for _, e := range kind.entries {
			bySource[e.source] = append(bySource[e.source], e)
		}
		for _, of := range titles {
			sections = appendSection(sections, of.title+" "+kind.title, bySource[of.source])
			delete(bySource, of.source)
		}
		for _, name := range slices.Sorted(maps.Keys(bySource)) {
			sections = appendSection(sections, name+" "+kind.title, bySource[name])
		}
	}
	for _, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		fmt.Fprintf(&s, "- [%s](#%s)\n", title, strings.ReplaceAll(strings.ToLower(title), " ", "-"))
	}
	for _, section := range sections {
		s.WriteString("\n## " + section)
	}
	return s.String()
}

// appendSection adds the text of one section, if it has anything. Its first line is its title.
func appendSection(sections []string, title string, entries []entry) []string {
	if len(entries) == 0 {
		return sections
	}
	var s strings.Builder
	s.WriteString(title + "\n\n")
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range entries {
		fmt.Fprintf(&s, "- [`%[1]s`](#%[1]s)", e.name)
		if e.says != "" {
			s.WriteString(": " + cell(e.says))
		}
		s.WriteByte('\n')
	}
	for _, e := range entries {
		fmt.Fprintf(&s, "\n### %s\n\n", e.name)
		for _, text := range []string{e.says, e.more} {
			if text != "" {
				s.WriteString(text + "\n\n")
			}
		}
		comments := slices.ContainsFunc(e.columns, func(c [3]string) bool { return c[2] != "" })
		if comments {
			s.WriteString("| column | type | what it holds |\n| --- | --- | --- |\n")
		} else {
			s.WriteString("| column | type |\n| --- | --- |\n")
		}
		for _, c := range e.columns {
			fmt.Fprintf(&s, "| `%s` | `%s` |", c[0], cell(c[1]))
			if comments {
				s.WriteString(" " + cell(c[2]) + " |")
			}
			s.WriteByte('\n')
		}
	}
	return append(sections, s.String())
}

// cell is text that does not break a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}

// docs/sql.md says what the code says.
func TestSQLPage(t *testing.T) {
	want := page(t)
	if t.Failed() {
		return
	}
	if *update {
		if err := os.WriteFile("sql.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile("sql.md")
	if err != nil {
		t.Fatalf("%v: run go generate ./docs", err)
	}
	if string(got) == want {
		return
	}
	have, lines := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i := range min(len(have), len(lines)) {
		if have[i] != lines[i] {
			t.Fatalf("docs/sql.md is old: run go generate ./docs\nline %d is  %s\nand must be %s", i+1, have[i], lines[i])
		}
	}
	t.Fatalf("docs/sql.md is old: run go generate ./docs (it has %d lines and must have %d)", len(have), len(lines))
}

// Every question in docs/queries.md can be asked.
func TestQueries(t *testing.T) {
	conn, n := schema(t), 0
	for _, q := range docs.Questions() {
		n++
		rows, err := conn.Query(t.Context(), q.SQL)
		if err != nil {
			t.Errorf("%s: %v", q.About, err)
			continue
		}
		for rows.Next() {
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%s: %v", q.About, err)
		}
		rows.Close()
	}
	if n < 7 {
		t.Errorf("only %d questions found", n)
	}
}

// Every view and table that docs/queries.md names is there: what it names must be in docs/sql.md, which is generated.
func TestQueriesNameViewsThatExist(t *testing.T) {
	known := anchors(read(t, "sql.md"))
	_, section, _ := strings.Cut(read(t, "queries.md"), "\n## Which view\n")
	section, _, _ = strings.Cut(section, "\n## ")
	n := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		first, _, _ := strings.Cut(line[2:], " | ")
		for _, m := range regexp.MustCompile("`(\\w+)[`(]").FindAllStringSubmatch(first, -1) {
			if n++; !known[m[1]] {
				t.Errorf("queries.md names %s, which sql.md does not have", m[1])
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d names found", n)
	}
}
