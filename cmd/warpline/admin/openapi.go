package admin

import (
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/warpline/warpline/proto/tenant"
)

// describe returns the API in the words of OpenAPI 3.1, made of the list of routes and of the types that they take and give.
func describe(version string) map[string]any {
	d := &description{schemas: map[string]any{}}
	paths := map[string]any{}
	problem := map[string]any{"description": "A problem document (RFC 9457). Its member error is for programs.",
		"content": map[string]any{"application/problem+json": map[string]any{"schema": map[string]any{"type": "object",
			"required": []string{"type", "title", "status", "detail", "error"}, "properties": map[string]any{
				"type": text, "title": text, "status": whole, "detail": text, "error": text, "retry_after_seconds": whole}}}}}
	for i := range routes {
		r := &routes[i]
		at, _ := paths["/"+r.path].(map[string]any)
		if at == nil {
			at = map[string]any{}
			paths["/"+r.path] = at
		}
		at[strings.ToLower(r.method)] = d.operation(r, problem)
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Warpline's admin API", "version": version, "description": "Keys of scope admin administer their own " +
			"tenant, an operator's key all. What another tenant has is not there (404). Of limits, sizes are bytes and times are seconds."},
		"servers": []any{map[string]any{"url": strings.TrimSuffix(Path, "/")}},
		"paths":   paths,
		"components": map[string]any{"schemas": d.schemas, "securitySchemes": map[string]any{"key": map[string]any{"type": "http",
			"scheme": "bearer"}}},
		"security": []any{map[string]any{"key": []string{}}},
	}
}

type description struct{ schemas map[string]any }

var (
	text  = map[string]any{"type": "string"}
	whole = map[string]any{"type": "integer"}
)

func (d *description) operation(r *route, problem any) map[string]any {
	answer := map[string]any{"description": "Done."}
	if r.out != nil {
		answer["content"] = jsonOf(d.schema(reflect.TypeOf(r.out)))
		if r.changes || r.in != nil || strings.HasSuffix(r.path, "}") {
			answer["headers"] = map[string]any{"ETag": map[string]any{"schema": text, "description": "For If-Match, of tenants and keys."}}
		}
	}
	op := map[string]any{"summary": r.does, "responses": map[string]any{strconv.Itoa(r.status): answer, "default": problem}}
	if r.later {
		later := maps.Clone(answer)
		later["description"] = "Stored, and not carried out yet: the service does that."
		op["responses"].(map[string]any)["202"] = later
	}
	if r.in != nil {
		op["requestBody"] = map[string]any{"content": jsonOf(d.schema(reflect.TypeOf(r.in)))}
	}
	if r.open {
		op["security"] = []any{}
	}
	var params []any
	param := func(in, name, what string, required bool) {
		params = append(params, map[string]any{"in": in, "name": name, "required": required, "schema": text, "description": what})
	}
	for _, s := range strings.Split(r.path, "/") {
		if name, ok := strings.CutPrefix(s, "{"); ok {
			param("path", strings.TrimSuffix(name, "}"), "", true)
		}
	}
	for _, name := range r.query {
		param("query", name, parameters[name], false)
	}
	if r.changes {
		param("header", "If-Match",
			"The ETag of what is to be changed: if it is not so any more, the answer is 412, and nothing was done.", false)
	}
	if params != nil {
		op["parameters"] = params
	}
	return op
}

func jsonOf(schema any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schema}}
}

// schema is a type as JSON has it. Structs with a name are in components.
func (d *description) schema(t reflect.Type) map[string]any {
	switch {
	case t == timeType:
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[tenant.Scope]():
		return map[string]any{"type": "string", "enum": []string{"read", "admin", "operator"}, "description": "Not there: ingest."}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return text
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object"}
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Struct:
		name := schemaName(t)
		if d.schemas[name] == nil {
			d.schemas[name] = true // while its fields are looked at
			properties, required := map[string]any{}, []string{}
			d.fields(t, properties, &required)
			d.schemas[name] = map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
		}
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	return whole
}

// fields adds the fields of a struct, and of those that it embeds. What the zero value leaves out is not required; of what is asked for
// nothing is.
func (d *description) fields(t reflect.Type, properties map[string]any, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			d.fields(f.Type, properties, required)
		case name != "-" && f.IsExported():
			schema := d.schema(f.Type)
			if name == "" { // reports have the names of fields, and null for lists that are empty
				name = f.Name
				if f.Type.Kind() == reflect.Slice {
					schema = map[string]any{"type": []string{"array", "null"}, "items": d.schema(f.Type.Elem())}
				}
			}
			if f.Type == reflect.TypeFor[tenant.Limits]() {
				schema["deprecated"] = true
				schema["description"] = "The same limits under older names. A body has them in one way, not in both."
			}
			properties[name] = schema
			if !strings.HasPrefix(options, "omit") && !isAsked(t) {
				*required = append(*required, name)
			}
		}
	}
}

// isAsked reports whether a struct is what a body is.
func isAsked(t reflect.Type) bool {
	for i := range routes {
		if routes[i].in != nil && reflect.TypeOf(routes[i].in) == t {
			return true
		}
	}
	return false
}

// schemaName is that of a struct, with its package where another has the same name.
func schemaName(t reflect.Type) string {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if strings.HasSuffix(t.PkgPath(), "/rejects") {
		return name + "WithBytes"
	}
	return name
}
