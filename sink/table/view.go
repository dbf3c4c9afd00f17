package table

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"text/template"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/hist"
)

//go:embed views/*.sql
var viewFiles embed.FS

// View is one view over the tables.
type View struct {
	Name   string
	Source string // the source whose view it is, "" of a view that all share
	Row    string // a sentence that says what a row is: the first of the comment that its file begins with
	About  string // the rest of that comment
	Body   string // the SELECT

	arguments string
}

// Views returns every view, in the order in which they are created, for the database that o names: those that read others come after them.
func (s *Schema) Views(o Options) []View {
	t := template.Must(s.templates.Clone()).Funcs(s.funcs(o))
	out := make([]View, len(s.views))
	for i, v := range s.views {
		var text strings.Builder
		if err := t.ExecuteTemplate(&text, v.Name, nil); err != nil {
			panic("BUG: view " + v.Name + ": " + err.Error())
		}
		v.Body = strings.TrimSpace(text.String())
		if base := s.Table(v.Name + "_data"); base != nil {
			v.Body = plainTypes(base, v.Body)
		}
		out[i] = v
	}
	return out
}

// sharedFuncs are the functions of all views.
func (s *Schema) sharedFuncs(o Options) template.FuncMap {
	funcs := template.FuncMap{
		"db":          func() string { return ident(o.database()) },
		"quantile":    hist.QuantileSQL,
		"late":        func(dict string) string { return lateSQL(o, dict) },
		"belated":     func(dicts ...string) string { return belatedSQL(o, dicts) },
		"more":        func() string { return Quote(MoreNames) },
		"named":       func(name, row, id string) string { return namedSQL(o, name, row, id) },
		"function":    functionSQL,
		"fileof":      fileOfSQL,
		"reasonkind":  reasonKindSQL,
		"reasons":     reasonsSQL,
		"reasoncode":  reasonCodeSQL,
		"uncoded":     uncodedSQL,
		"scopepath":   scopePathSQL,
		"names":       func(dict string) string { return namesSQL(o, dict) },
		"vendors":     func() string { return vendorsSQL(o) },
		"copykind":    copyKindSQL,
		"copycode":    copyCodeSQL,
		"synctype":    syncTypeSQL,
		"sumparts":    sumPartsSQL,
		"synthetic":   func(tenant, session string) string { return syntheticSQL(o, tenant, session) },
		"intervals":   func() string { return intervalsSQL(o) },
		"intervalkey": intervalKeySQL,
		"disturbed":   disturbedSQL,
		"touched":     func(before int) string { return touchedSQL(o, before) },
		"windowed":    func() string { return windowedSQL(o) },
		"minute":      minuteSQL,
		"bucketof":    hist.IndexSQL,
		"endweight":   endWeightSQL,
		"ending":      endSQL,
		"rules":       s.insightRules,
		"gauge":       func(of, name string) string { return fmt.Sprintf("%s[%d]", of, gaugeKey(name)) },
	}
	maps.Copy(funcs, artifactFuncs(o))
	maps.Copy(funcs, cubinFuncs())
	return funcs
}

var extreme = regexp.MustCompile(`\b(?:min|max)\([a-z]\.(\w+)\)`)

// plainTypes casts min and max of aggregated columns, since ClickHouse gives them the type SimpleAggregateFunction(…) again, which people
// and their drivers should not see.
func plainTypes(base *Table, body string) string {
	return extreme.ReplaceAllStringFunc(body, func(call string) string {
		c := base.Column(extreme.FindStringSubmatch(call)[1])
		if c == nil || c.agg == "" {
			return call
		}
		typ := kinds[c.Kind].click
		if c.Kind == Dict {
			typ = "String"
		}
		return "CAST(" + call + ", " + Quote(typ) + ")"
	})
}

// From is what stands after FROM in a query of the view, in the session's database: its name, and for a view with parameters arguments for
// a first try.
func (v View) From() string {
	return ident(v.Name) + v.arguments
}

// DDL returns the statement that creates the view or puts it in the place of an older one.
func (v View) DDL(o Options) string {
	return fmt.Sprintf("CREATE OR REPLACE VIEW %s.%s%s AS\n%s\nCOMMENT %s", ident(o.database()), ident(v.Name), o.onCluster(), v.Body,
		Quote(v.mark()))
}

// mark identifies a version of a view. It is in the view's comment, so that an unchanged view is left alone.
func (v View) mark() string { return fmt.Sprintf("warpline %016x", xxh3.HashString(v.Body)) }

// lateSQL is the right side of a join that finds names which came after the rows that need them. Only those are read, since they are few.
func lateSQL(o Options, dict string) string {
	return fmt.Sprintf("(SELECT tenant, session_id, id, value FROM %s.dictionaries WHERE late = 1 AND dict = %s)", ident(o.database()),
		Quote(dict))
}

// namedSQL is the name of a row's id: name where that is not empty. Without one it is MoreNames in sessions that had names refused.
func namedSQL(o Options, name, row, id string) string {
	return fmt.Sprintf("multiIf(%[1]s != '', %[1]s, %[3]s != 0 AND (%[2]s.tenant, %[2]s.session_id) IN %[4]s, %[5]s, '')", name, row, id,
		belatedSQL(o, []string{MoreNamesDict}), Quote(MoreNames))
}

// belatedSQL is the right side of IN for (tenant, session_id): sessions in which names of dicts came after the rows that need them. It is
// made of those of all tenants; they are few, and index late lets ClickHouse pass over the names of others.
func belatedSQL(o Options, dicts []string) string {
	quoted := make([]string, len(dicts))
	for i, d := range dicts {
		quoted[i] = Quote(d)
	}
	return fmt.Sprintf("(SELECT tenant, session_id FROM %s.dictionaries WHERE late = 1 AND dict IN (%s))", ident(o.database()),
		strings.Join(quoted, ", "))
}

// scopePathSQL is the path of the scope that a kernel ran in, ” when it ran in none.
func scopePathSQL(userScope string) string {
	return fmt.Sprintf("if(%[1]s = 'global', '', %[1]s)", userScope)
}

// functionSQL takes the function out of a dictionary's name@file.
func functionSQL(value string) string {
	return fmt.Sprintf("if(position(%[1]s, '@') = 0, %[1]s, substring(%[1]s, 1, length(%[1]s) - position(reverse(%[1]s), '@')))", value)
}

// fileOfSQL takes the file out of a dictionary's name@file.
func fileOfSQL(value string) string {
	return fmt.Sprintf("if(position(%[1]s, '@') = 0, '', substring(%[1]s, length(%[1]s) - position(reverse(%[1]s), '@') + 2))", value)
}

// reasonsSQL is the stall reasons as an array of tuples. They are part of the view rather than rows of a table, so that two processes with
// a new text cannot insert it twice.
func reasonsSQL() string {
	var rows []string
	for _, r := range StallReasons() {
		rows = append(rows, fmt.Sprintf("(%s, %s, %s, %s, %s, %s)", Quote(r.Name), Quote(r.Kind), Quote(r.Group), Quote(r.Meaning),
			Quote(r.Remedy), Quote(r.Doc)))
	}
	return "[\n    " + strings.Join(rows, ",\n    ") + "]"
}
