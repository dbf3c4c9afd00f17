package table

import (
	"strings"
	"text/template"
)

// ParseView makes a view of a text that is in none of the files of views.
func ParseView(o Options, name, body string) (View, error) {
	funcs := artifactFuncs(o)
	funcs["db"] = func() string { return ident(o.database()) }
	t, err := template.New(name).Funcs(funcs).Parse(body)
	if err != nil {
		return View{}, err
	}
	var s strings.Builder
	err = t.Execute(&s, nil)
	return View{Name: name, Body: strings.TrimSpace(s.String())}, err
}
