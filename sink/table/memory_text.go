package table

import "fmt"

// collectiveSQL says whether a text names a collective operation, however it is spelled: case, '-' and '_' do not count.
func collectiveSQL(text string) string {
	return fmt.Sprintf("multiSearchAny(replaceAll(replaceAll(lower(%s), '-', ''), '_', ''), "+
		"['nccl', 'collective', 'communication', 'allreduce', 'allgather', 'reducescatter', 'broadcast', 'barrier'])", text)
}

// blank is what the peer's language takes for white space, as a class of a regular expression.
const blank = `[\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+`

// strippedSQL is a text without the white space around it.
func strippedSQL(text string) string {
	return fmt.Sprintf("replaceRegexpAll(%s, %s, '')", text, quote("^"+blank+"|"+blank+"$"))
}

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
	lower := each("lowerUTF8("+strippedSQL(text)+")", `0x[0-9a-f]+`, "<hex>")
	plain := each(lower, `\b\d+(?:\.\d+)?(?:%\B|\b)`, "<num>")
	other := each(lower, `([^\x00-\x7f])`, `Q\1Q`, `Q([^\p{L}\p{N}])Q`, `\1`, `Q(\p{Nd})Q`, `W\1W`,
		`\b(?:\d|W\p{Nd}W)+(?:\.(?:\d|W\p{Nd}W)+)?(?:%\B|\b)`, "<num>", `[QW]`, "")
	return each(fmt.Sprintf("if(isASCII(%s), %s, %s)", text, plain, other), blank, " ")
}

// jsonTextSQL is a text as a JSON string in ASCII.
func jsonTextSQL(text string) string {
	const char = `if(c IN ('"', '\\'), concat('\\', c), if(c = '\b', '\\b', if(match(c, '[ -~]'), c, arrayStringConcat(arrayMap(u -> concat('\\u', lower(leftPad(hex(toUInt16(u)), 4, '0'))),
            arrayMap(p -> if(p < 65536, [p], [55296 + intDiv(p - 65536, 1024), 56320 + (p - 65536) % 1024]), [toUInt32(arrayFold((p, b) -> p * 64 + b % 64,
                arrayMap(k -> toUInt32(reinterpretAsUInt8(substring(c, k, 1))), range(2, length(c) + 1)),
                toUInt32(reinterpretAsUInt8(c) % if(length(c) = 1, 128, bitShiftRight(128, length(c))))))])[1])))))`
	return fmt.Sprintf(`if(match(%[1]s, '[^ !#-\\[\\]-~]'), concat('"', arrayStringConcat(arrayMap(c -> %[2]s, extractAll(%[1]s, '(?s).'))), '"'), concat('"', %[1]s, '"'))`, text, char)
}
