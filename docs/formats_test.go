package docs_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// Every field of the envelope and of a chunk's header is in docs/formats.md, in the section of the message that has it.
func TestFormatsNameEveryField(t *testing.T) {
	text := read(t, "formats.md")
	messages := map[string]reflect.Type{"Envelope": reflect.TypeFor[stream.Envelope](), "Chunk": reflect.TypeFor[stream.Chunk]()}
	for section, of := range messages {
		_, page, found := strings.Cut(text, "\n## "+section+"\n")
		if !found {
			t.Fatalf("formats.md has no section %s", section)
		}
		page, _, _ = strings.Cut(page, "\n## ")
		fields := map[string]bool{}
		jsonFields(of, fields)
		for name := range fields {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("formats.md does not have field %s of the %s", name, section)
			}
		}
		if len(fields) < 20 {
			t.Errorf("only %d fields of the %s found", len(fields), section)
		}
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (?:text|number|bool|list|object)").FindAllStringSubmatch(page, -1) {
			if !fields[m[1]] {
				t.Errorf("formats.md has field %s, which the %s does not have", m[1], section)
			}
		}
	}
}

// Every kind of part is in docs/formats.md.
func TestFormatsNameEveryKind(t *testing.T) {
	text, n := read(t, "formats.md"), 0
	goFiles(t, "proto/stream", false, func(path string) {
		for _, m := range regexp.MustCompile(`Kind\w+ +Kind = "([\w-]+)"`).FindAllStringSubmatch(read(t, path), -1) {
			if n++; !strings.Contains(text, "\n| `"+m[1]+"` | ") {
				t.Errorf("formats.md does not have kind %s, which %s declares", m[1], path)
			}
		}
	})
	if n < 8 {
		t.Errorf("only %d kinds found", n)
	}
}

// jsonFields adds the names of the fields of a struct and of those inside it.
func jsonFields(of reflect.Type, into map[string]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	for i := range of.NumField() {
		if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" {
			into[name] = true
			jsonFields(of.Field(i).Type, into)
		}
	}
}
