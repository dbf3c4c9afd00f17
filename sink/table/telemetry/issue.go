package telemetry

import (
	"fmt"

	"github.com/warpline/warpline/sink/table"
)

// normalSQL is a text in the form in which issues are compared: lower case, addresses and numbers replaced, white space collapsed; ” when
// nothing is left. A number must not have a letter or digit beside it, of any script, but the engine's word boundaries know only ASCII. So
// while numbers are replaced, other letters and digits are put between capitals, which a lower-case text does not have.
func normalSQL(text string) string {
	each := func(s string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			s = fmt.Sprintf("replaceRegexpAll(%s, %s, %s)", s, table.Quote(pairs[i]), table.Quote(pairs[i+1]))
		}
		return s
	}
	lower := each("lowerUTF8("+trimmedSQL(text)+")", `0x[0-9a-f]+`, "<hex>")
	plain := each(lower, `\b\d+(?:\.\d+)?(?:%\B|\b)`, "<num>")
	other := each(lower, `([^\x00-\x7f])`, `Q\1Q`, `Q([^\p{L}\p{N}])Q`, `\1`, `Q(\p{Nd})Q`, `W\1W`,
		`\b(?:\d|W\p{Nd}W)+(?:\.(?:\d|W\p{Nd}W)+)?(?:%\B|\b)`, "<num>", `[QW]`, "")
	return each(fmt.Sprintf("if(isASCII(%s), %s, %s)", text, plain, other), blanks, " ")
}

// jsonTextSQL is a text as a JSON string in ASCII.
func jsonTextSQL(text string) string {
	const char = `multiIf(c IN ('"', '\\'), concat('\\', c), c = '\b', '\\b', match(c, '[ -~]'), c, ` +
		`replaceRegexpAll(lower(hex(convertCharset(c, 'UTF-8', 'UTF-16BE'))), '(.{4})', '\\\\u\\1'))`
	return fmt.Sprintf(`if(match(%[1]s, '[^ !#-\\[\\]-~]'), concat('"', arrayStringConcat(arrayMap(c -> %[2]s, extractAll(%[1]s, `+
		`'(?s).'))), '"'), concat('"', %[1]s, '"'))`, text, char)
}

// jsonStringSQL is the text that a JSON object has under key, ” when it has none or something that is not a text: JSONExtractString takes
// anything.
func jsonStringSQL(object, key string) string {
	return fmt.Sprintf("if(JSONType(%[1]s, '%[2]s') = 'String', JSONExtractString(%[1]s, '%[2]s'), '')", object, key)
}

// jsonWordsSQL is the value that metadata has under key as text: a text itself, the JSON of anything else, ” when there is none.
func jsonWordsSQL(metadata, key string) string {
	return fmt.Sprintf("multiIf(JSONType(%[1]s, '%[2]s') = 'String', JSONExtractString(%[1]s, '%[2]s'), JSONType(%[1]s, '%[2]s') = "+
		"'Null', '', JSONExtractRaw(%[1]s, '%[2]s'))", metadata, key)
}

// fingerprintSQL is the id of an issue of this kind, whose dimensions are the members of a JSON object in the order of their names.
func fingerprintSQL(kind, dimensions string) string {
	return fmt.Sprintf(`concat('issue:', lower(hex(substring(SHA256(concat('{"dimensions":', %[2]s, ',"kind":"', %[1]s, `+
		`'","schema_version":1}')), 1, 12))))`, kind, dimensions)
}

// warnsSQL says whether an event of memory telemetry is a warning, by its type or by the severity in its metadata.
func warnsSQL(eventType, metadata string) string {
	return fmt.Sprintf(`(%[1]s IN ('warning', 'critical', 'error') OR if(position(%[2]s, '"severity"') = 0, false, %[3]s IN `+
		`('warning', 'critical', 'error')))`,
		eventType, metadata, normalSQL(jsonStringSQL(metadata, "severity")))
}
