package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warpline/warpline/ingest"
)

// maxBody bounds a body, before it is read. A list of a thousand ids has 20 KiB.
const maxBody = 64 << 10

// bodyTime is how long a body may take to come.
const bodyTime = 10 * time.Second

// readBody returns a body that is not too large.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	large := &Denied{http.StatusRequestEntityTooLarge, "body_too_large",
		fmt.Sprintf("a body may have %d bytes here: ask for less at once", maxBody)}
	if r.ContentLength > maxBody {
		return nil, large
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, &Denied{http.StatusUnsupportedMediaType, "unsupported_encoding", "send the body as it is, without Content-Encoding"}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // where that is possible
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // else the request ends with it
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, large
	case err != nil:
		return nil, &ingest.Refusal{Status: http.StatusBadRequest, Code: "body_broken", Cause: err,
			Detail: "the body did not come whole: send it again"}
	case !utf8.Valid(body):
		return nil, bad(errors.New("the body is not UTF-8: send JSON"))
	}
	return body, nil
}

// decode takes over the fields of a JSON object into a struct, and leaves the others as they are. null is a field's zero, which for limits
// is the default again. A field that the struct does not have is an error that names it, and so is one that stands twice.
func decode(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	var whole json.RawMessage
	if err := dec.Decode(&whole); err != nil {
		return bad(fmt.Errorf("the body is no JSON: %w", err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return bad(errors.New("something follows the JSON object: send one object"))
	}
	if err := assign(reflect.ValueOf(into).Elem(), whole, ""); err != nil {
		return bad(err)
	}
	return nil
}

var timeType = reflect.TypeFor[time.Time]()

func assign(to reflect.Value, raw json.RawMessage, path string) error {
	raw = bytes.TrimSpace(raw)
	if bytes.Equal(raw, []byte("null")) {
		to.SetZero()
		return nil
	}
	if to.Kind() != reflect.Struct || to.Type() == timeType {
		if err := json.Unmarshal(raw, to.Addr().Interface()); err != nil {
			return fmt.Errorf("%s: use %s", path, wanted(to.Type()))
		}
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%s: use an object {…}", pathOr(path, "the body"))
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return fmt.Errorf("%s: no JSON", pathOr(path, "the body"))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("%s: no JSON: %w", path+name, err)
		}
		field, ok := fieldOf(to, name)
		switch {
		case !ok:
			return fmt.Errorf("%s%.60q is no field here: use %s", path, name, strings.Join(fieldNames(to.Type()), ", "))
		case seen[name]:
			return fmt.Errorf("%s%s stands twice", path, name)
		}
		seen[name] = true
		next := path + name
		if field.Kind() == reflect.Struct && field.Type() != timeType {
			next += "."
		}
		if err := assign(field, value, next); err != nil {
			return err
		}
	}
	return nil
}

func pathOr(path, none string) string {
	if path == "" {
		return none
	}
	return strings.TrimSuffix(path, ".")
}

// wanted says what a value of a type looks like.
func wanted(t reflect.Type) string {
	switch {
	case t == timeType:
		return "a time, as \"2026-11-20T12:00:00Z\""
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list of texts"
	case t.Kind() == reflect.Float64:
		return "a number"
	}
	return "a whole number, not too large"
}

// fieldOf finds a field by its name in JSON, letter for letter.
func fieldOf(of reflect.Value, name string) (reflect.Value, bool) {
	for i := range of.NumField() {
		switch n := jsonName(of.Type().Field(i)); n {
		case name:
			return of.Field(i), true
		case "":
			if v, ok := fieldOf(of.Field(i), name); ok {
				return v, true
			}
		}
	}
	return reflect.Value{}, false
}

// fieldNames are the names in JSON of the fields of a struct, and of those that it embeds. It has no others.
func fieldNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if n := jsonName(t.Field(i)); n != "" {
			names = append(names, n)
		} else {
			names = append(names, fieldNames(t.Field(i).Type)...)
		}
	}
	return names
}

// jsonName is the name of a field in JSON, "" of one that is embedded.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
