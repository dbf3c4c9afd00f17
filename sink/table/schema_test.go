package table_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// source returns a source with these views, by file.
func source(name string, views map[string]string) table.Source {
	files := fstest.MapFS{}
	for view, text := range views {
		files["views/"+view+".sql"] = &fstest.MapFile{Data: []byte("-- A row is a test's.\n" + text)}
	}
	return table.Source{Name: name, Views: files}
}

func TestViewsStandBehindWhatTheyRead(t *testing.T) {
	s, err := table.NewSchema(source("x", map[string]string{
		"a_last":   "SELECT * FROM {{db}}.b_middle AS b INNER JOIN {{db}}.`kernels` AS k ON b.tenant = k.tenant",
		"b_middle": "SELECT * FROM {{db}}.z_first",
		"z_first":  "SELECT * FROM {{db}}.kernels_data",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range s.Views(table.Options{Database: "other"}) {
		names = append(names, v.Name)
		if v.Name == "z_first" && (v.Source != "x" || v.Body != "SELECT * FROM `other`.kernels_data" || v.Row != "A row is a test's.") {
			t.Errorf("the view became %+v", v)
		}
	}
	at := func(name string) int { return slices.Index(names, name) }
	if at("z_first") < 0 || at("z_first") > at("b_middle") || at("b_middle") > at("a_last") || at("kernels") > at("a_last") {
		t.Errorf("the order is %v", names)
	}
	all := tabletest.Schema().Views(table.Options{})
	for i, v := range all {
		for _, later := range all[i+1:] {
			if strings.Contains(v.Body, "`."+later.Name+"\n") || strings.Contains(v.Body, "`."+later.Name+" ") {
				t.Errorf("%s reads %s, which comes later", v.Name, later.Name)
			}
		}
	}
}

func TestSchemaErrorsNameWhatIsWrong(t *testing.T) {
	other := table.Define("kernels_data", table.Static, "at")
	for name, c := range map[string]struct {
		source table.Source
		want   string
	}{
		"circle": {
			source("x", map[string]string{"a": "SELECT * FROM {{db}}.b", "b": "SELECT * FROM {{db}}.c", "c": "SELECT * FROM {{db}}.a"}),
			"a reads b reads c reads a",
		},
		"itself":        {source("x", map[string]string{"a": "SELECT * FROM {{db}}.a"}), "a reads a"},
		"unknown":       {source("x", map[string]string{"a": "SELECT * FROM {{db}}.nothing"}), "view a reads nothing"},
		"other source":  {source("x", map[string]string{"a": "SELECT * FROM {{db}}.memory_events"}), "view a reads memory_events"},
		"view twice":    {source("x", map[string]string{"kernels": "SELECT 1"}), `both define "kernels"`},
		"snippet twice": {source("x", map[string]string{"a": `{{define "launched"}}{{end}}SELECT 1`}), `both define "launched"`},
		"table twice":   {table.Source{Name: "x", Tables: []*table.Table{other}}, `two tables kernels_data: rename that of source "x"`},
		"view as table": {source("x", map[string]string{"launches": "SELECT 1"}), "a view and a table launches"},
		"function":      {source("x", map[string]string{"a": "SELECT {{nothing}}"}), `function "nothing" not defined`},
	} {
		if _, err := table.NewSchema(c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q in it", name, err, c.want)
		}
	}
}

// What sources share reads nothing of a source, and a source nothing of another: each schema can be made alone.
func TestSourcesStandAlone(t *testing.T) {
	for _, src := range tabletest.Schema().Sources() {
		with := []table.Source{src}
		if src.Name == "" {
			with = nil
		}
		if _, err := table.NewSchema(with...); err != nil {
			t.Errorf("with no source but %q: %v", src.Name, err)
		}
	}
}

func TestViewFilesSayWhatARowIs(t *testing.T) {
	for _, v := range tabletest.Schema().Views(table.Options{}) {
		if !strings.HasPrefix(v.Row, "A row is ") || !strings.HasSuffix(v.Row, ".") {
			t.Errorf("views/%s.sql of source %q begins with %q: begin it with a comment, -- A row is … .", v.Name, v.Source, v.Row)
		}
	}
}
