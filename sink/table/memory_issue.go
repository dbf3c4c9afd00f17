package table

import "fmt"

// normalSQL is a text as issues are told apart by: lower case, addresses and numbers replaced, white space collapsed; ” where nothing is
// left. A number has no letter or digit beside it, of whatever script, which the engine's word boundaries know of ASCII alone: so what
// else is a letter or digit stands between capitals, which lower case has not, for as long as numbers are looked for.
func normalSQL(text string) string {
	each := func(s string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			s = fmt.Sprintf("replaceRegexpAll(%s, %s, %s)", s, quote(pairs[i]), quote(pairs[i+1]))
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
	const char = `if(c IN ('"', '\\'), concat('\\', c), if(c = '\b', '\\b', if(match(c, '[ -~]'), c, arrayStringConcat(arrayMap(u -> concat('\\u', lower(leftPad(hex(toUInt16(u)), 4, '0'))),
            arrayMap(p -> if(p < 65536, [p], [55296 + intDiv(p - 65536, 1024), 56320 + (p - 65536) % 1024]), [toUInt32(arrayFold((p, b) -> p * 64 + b % 64,
                arrayMap(k -> toUInt32(reinterpretAsUInt8(substring(c, k, 1))), range(2, length(c) + 1)),
                toUInt32(reinterpretAsUInt8(c) % if(length(c) = 1, 128, bitShiftRight(128, length(c))))))])[1])))))`
	return fmt.Sprintf(`if(match(%[1]s, '[^ !#-\\[\\]-~]'), concat('"', arrayStringConcat(arrayMap(c -> %[2]s, extractAll(%[1]s, '(?s).'))), '"'), concat('"', %[1]s, '"'))`, text, char)
}
