package table

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"
)

// readViews reads the view files of all sources. Views and the templates in them must not share names.
func (s *Schema) readViews() error {
	s.templates = template.New("").Funcs(s.funcs(Options{}))
	owner := map[string]string{}
	for i := range s.sources {
		src := &s.sources[i]
		if src.Views == nil {
			continue
		}
		files, err := fs.Glob(src.Views, "views/*.sql")
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := fs.ReadFile(src.Views, file)
			if err != nil {
				return err
			}
			v := View{Name: strings.TrimSuffix(path.Base(file), ".sql"), Source: src.Name}
			v.arguments = src.Arguments[v.Name]
			var body string
			v.Row, v.About, body = cutComment(string(text))
			parsed, err := template.New(v.Name).Funcs(s.funcs(Options{})).Parse(body)
			if err != nil {
				return fmt.Errorf("view %s: %w", v.Name, err)
			}
			for _, t := range parsed.Templates() {
				if other, twice := owner[t.Name()]; twice {
					return fmt.Errorf("%s and %s both define %q: rename one", other, v.Name, t.Name())
				}
				owner[t.Name()] = v.Name
				if _, err := s.templates.AddParseTree(t.Name(), t.Tree); err != nil {
					return fmt.Errorf("view %s: %w", v.Name, err)
				}
			}
			s.views = append(s.views, v)
		}
	}
	return nil
}

// cutComment splits a view file into the first sentence of the comment that it begins with, the rest of that comment, and the template.
func cutComment(file string) (row, about, body string) {
	var words []string
	for strings.HasPrefix(file, "--") {
		line, after, _ := strings.Cut(file, "\n")
		words = append(words, strings.Fields(line[2:])...)
		file = after
	}
	end := slices.IndexFunc(words, func(w string) bool { return strings.HasSuffix(w, ".") })
	return strings.Join(words[:end+1], " "), strings.Join(words[end+1:], " "), file
}

// sortViews puts each view after those that it reads, and otherwise sorts them by name. A view reads what follows the name of the database
// in its text.
func (s *Schema) sortViews() error {
	slices.SortFunc(s.views, func(a, b View) int { return cmp.Compare(a.Name, b.Name) })
	reads := make(map[string][]string, len(s.views))
	byName := make(map[string]View, len(s.views))
	for _, v := range s.Views(Options{}) {
		if s.byName[v.Name] != nil {
			return fmt.Errorf("there is a view and a table %s: rename one", v.Name)
		}
		reads[v.Name] = references(v.Body)
	}
	for _, v := range s.views {
		byName[v.Name] = v
	}
	sorted := make([]View, 0, len(s.views))
	done := map[string]bool{}
	var visit func(name string, from []string) error
	visit = func(name string, from []string) error {
		if at := slices.Index(from, name); at >= 0 {
			return fmt.Errorf("views refer to each other in a circle: %s", strings.Join(append(from[at:], name), " reads "))
		}
		if done[name] {
			return nil
		}
		from = append(from, name)
		for _, other := range reads[name] {
			if s.byName[other] != nil {
				continue
			}
			if _, ok := byName[other]; !ok {
				return fmt.Errorf("view %s reads %s, which is neither a table nor a view: is its source in the list?", name, other)
			}
			if err := visit(other, from); err != nil {
				return err
			}
		}
		done[name] = true
		sorted = append(sorted, byName[name])
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if err := visit(name, nil); err != nil {
			return err
		}
	}
	s.views = sorted
	return nil
}

// references returns what a text for the database DefaultDatabase reads of it, in the order of their names.
func references(body string) []string {
	var names []string
	for _, rest := range strings.Split(body, ident(DefaultDatabase)+".")[1:] {
		rest = strings.TrimPrefix(rest, "`")
		end := strings.IndexFunc(rest, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		if end < 0 {
			end = len(rest)
		}
		names = append(names, rest[:end])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
