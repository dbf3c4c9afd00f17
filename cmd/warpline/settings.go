package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"
)

// envPrefix begins every environment variable that sets a flag.
const envPrefix = "WARPLINE_"

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settings resolves flags that the command line does not name: from the environment, else from the file. It is a kong.Resolver.
type settings struct {
	env    func(string) (string, bool)
	path   string                // of the file, "" for none
	values map[string]*yaml.Node // by flag name
	// source tells where a flag's value came from: "--flag" when the command line named it or nothing did.
	source map[string]string
	named  map[string]bool // flags that the command line names
}

// loadSettings reads the file that args or the environment name, and refuses keys that no command has.
func loadSettings(model *kong.Application, args []string, env func(string) (string, bool)) (*settings, error) {
	s := &settings{env: env, values: map[string]*yaml.Node{}, source: map[string]string{}, named: map[string]bool{}}
	named := "--config"
	s.path = argument(args, "--config")
	if s.path == "" {
		named = envPrefix + "CONFIG"
		s.path, _ = env(named)
	}
	if s.path == "" {
		return s, nil
	}
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: name a readable YAML file", named, err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w: write one \"flag-name: value\" a line", s.path, err)
	}
	if len(doc.Content) == 0 {
		return s, nil // an empty file sets nothing
	}
	return s, s.read(doc.Content[0], flagNames(model.Node))
}

func (s *settings) read(top *yaml.Node, known []string) error {
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: line %d: the file must be \"flag-name: value\" lines", s.path, top.Line)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		where := fmt.Sprintf("%s: line %d: %q", s.path, key.Line, key.Value)
		switch {
		case !slices.Contains(known, key.Value):
			return fmt.Errorf("%s is not a setting%s", where, suggest(key.Value, known))
		case key.Value == "config" || key.Value == "print-config":
			return fmt.Errorf("%s cannot stand in the file: give it as a flag", where)
		case s.values[key.Value] != nil:
			return fmt.Errorf("%s stands twice: remove one", where)
		case value.Kind == yaml.MappingNode || value.Kind == yaml.AliasNode:
			return fmt.Errorf("%s must be one value", where)
		}
		s.values[key.Value] = value
	}
	return nil
}

// Validate implements kong.Resolver.
func (s *settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver: environment, then file.
func (s *settings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !settable(flag.Name) || flag.Tag.Has("own") {
		return nil, nil
	}
	if v, ok := s.env(envName(flag.Name)); ok {
		s.source[flag.Name] = envName(flag.Name)
		return v, nil
	}
	v, ok := s.values[flag.Name]
	if !ok || v.Tag == "!!null" {
		return nil, nil
	}
	s.source[flag.Name] = fmt.Sprintf("%s (%s line %d)", flag.Name, s.path, v.Line)
	if v.Kind == yaml.SequenceNode {
		parts := make([]string, len(v.Content))
		for i, n := range v.Content {
			parts[i] = n.Value
		}
		return strings.Join(parts, ","), nil
	}
	return v.Value, nil
}

func settable(name string) bool {
	return name != "help" && name != "version" && name != "config" && name != "print-config"
}

// name returns how the user wrote the setting: --flag, VARIABLE or key in the file. Error texts begin with it.
func (s *settings) name(flag string) string {
	if src, ok := s.source[flag]; ok {
		return src
	}
	return "--" + flag
}

// chosen forgets the sources of flags that the command line overrides.
func (s *settings) chosen(ctx *kong.Context) {
	for _, p := range ctx.Path {
		if p.Flag != nil && !p.Resolved {
			delete(s.source, p.Flag.Name)
			s.named[p.Flag.Name] = true
		}
	}
}

// given reports whether anything but its default says what the flag is.
func (s *settings) given(flag string) bool {
	_, ok := s.source[flag]
	return ok || s.named[flag]
}

var longFlag = regexp.MustCompile(`--([a-z][a-z0-9-]*)(=[^:\s]+)?`)

// reword puts the variable or key that the user wrote into kong's error, which only knows flags.
func (s *settings) reword(err error, args []string) error {
	text := err.Error()
	out := longFlag.ReplaceAllStringFunc(text, func(m string) string {
		name := longFlag.FindStringSubmatch(m)[1]
		src, ok := s.source[name]
		if !ok || argument(args, "--"+name) != "" {
			return m
		}
		return src
	})
	if strings.Contains(text, "unknown flag") && !strings.Contains(text, "did you mean") {
		out += ": see --help for the flags there are"
	}
	if out == text {
		return err
	}
	return errors.New(out)
}

// print writes the settings of the chosen command as YAML that --config reads back. Secrets stand as comments.
func (s *settings) print(w io.Writer, ctx *kong.Context) error {
	fmt.Fprintf(w, "# warpline %s\n", ctx.Selected().Path())
	seen := map[string]bool{}
	for _, f := range ctx.Flags() {
		if !settable(f.Name) || seen[f.Name] || f.Hidden || f.Tag.Has("own") {
			continue
		}
		seen[f.Name] = true
		if f.Target.Kind() == reflect.Pointer && f.Target.IsNil() { // left as it is
			continue
		}
		from := "default"
		if src, ok := s.source[f.Name]; ok {
			from = src
		} else if slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return p.Flag == f && !p.Resolved }) {
			from = "--" + f.Name
		}
		if f.Tag.Has("secret") {
			if f.Target.IsZero() {
				from = "not set"
			} else {
				from += ", not shown"
			}
			fmt.Fprintf(w, "# %s: ***  # %s\n", f.Name, from)
			continue
		}
		value, err := yaml.Marshal(plain(f.Target))
		if err != nil {
			return fmt.Errorf("print %s: %w", f.Name, err)
		}
		fmt.Fprintf(w, "%s: %s  # %s\n", f.Name, strings.TrimSpace(string(value)), from)
	}
	return nil
}

// plain turns a flag's value into what YAML shows on one line.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case fmt.Stringer:
		return x.String()
	case []string:
		return strings.Join(x, ",")
	case float64:
		if n := int64(x); float64(n) == x && n < 1<<53 { // as a float, YAML would print 5e+06
			return n
		}
	}
	return v.Interface()
}

// flagNames lists every flag of every command.
func flagNames(n *kong.Node) (names []string) {
	for _, f := range n.Flags {
		names = append(names, f.Name)
	}
	for _, child := range n.Children {
		names = append(names, flagNames(child)...)
	}
	return names
}

// suggest names the known word that is nearest to a mistyped one.
func suggest(word string, known []string) string {
	best, at := "", 4
	for _, k := range known {
		if d := distance(word, k); d < at {
			best, at = k, d
		}
	}
	if best == "" {
		return `: "warpline <command> --print-config" shows the keys there are`
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// distance is the edit distance of two short words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// argument returns the value of a long flag in args before any "--", "" when it is not there.
func argument(args []string, flag string) string {
	for i, a := range args {
		if a == "--" {
			break
		}
		if v, ok := strings.CutPrefix(a, flag+"="); ok {
			return v
		}
		if a == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

func helpWithEnv(v *kong.Value) string {
	if v.Flag == nil || !settable(v.Name) || v.Tag.Has("own") {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + envName(v.Name) + ")."
}

// wrap breaks text at spaces so that no line is longer than width.
func wrap(text string, width int) string {
	var b strings.Builder
	for i, par := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		at := 0
		for _, word := range strings.Fields(par) {
			if at > 0 && at+1+len(word) > width {
				b.WriteByte('\n')
				at = 0
			} else if at > 0 {
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += len(word)
		}
	}
	return b.String()
}

// maxSecret is far longer than any key or password.
const maxSecret = 64 << 10

// readSecrets gives flags like --key the first line of the file that --key-file names. Who can see the arguments of processes does not see
// what is in a file.
func (s *settings) readSecrets(flags []*kong.Flag) error {
	for _, file := range flags {
		name, isFile := strings.CutSuffix(file.Name, "-file")
		i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name && f.Tag.Has("secret") })
		if !isFile || i < 0 || file.Target.String() == "" {
			continue
		}
		if flags[i].Target.String() != "" {
			return fmt.Errorf("%s and %s are both given: leave one out", s.name(name), s.name(file.Name))
		}
		f, err := os.Open(file.Target.String())
		if err != nil {
			return fmt.Errorf("%s: %w", s.name(file.Name), err)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
		f.Close()
		secret := strings.TrimRight(string(text), "\r\n")
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", s.name(file.Name), err)
		case secret == "":
			return fmt.Errorf("%s: %s is empty: write the secret into it", s.name(file.Name), file.Target.String())
		case len(text) > maxSecret || strings.ContainsAny(secret, "\r\n"):
			return fmt.Errorf("%s: %s has more than one line: it must hold the secret alone", s.name(file.Name), file.Target.String())
		}
		flags[i].Target.SetString(secret)
	}
	return nil
}
