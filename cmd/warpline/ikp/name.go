package ikp

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// maxName is how many bytes of a region's name a file's name takes, so that no file system refuses it.
const maxName = 120

// safe is a name as a part of a file's name: letters, digits, _, - and . stay.
func safe(name string) string {
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || strings.ContainsRune("_-.", r)) {
			return r
		}
		return '_'
	}, name), "_")
	if name = cut(name, maxName); strings.Trim(name, ".") == "" {
		return "region"
	}
	return name
}

// cut is the first n bytes of text, and no half character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// shown is a name as a drawing has it: one line of at most n characters.
func shown(name string, n int) string {
	var out []rune
	for _, r := range name {
		if !unicode.IsPrint(r) {
			r = '\uFFFD'
		}
		if out = append(out, r); len(out) > n {
			return string(out[:n-1]) + "…"
		}
	}
	return string(out)
}

// number is x for people.
func number(x float64) string {
	if a := math.Abs(x); a != 0 && (a < 1e-3 || a >= 1e12) {
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	digits := 4
	switch a := math.Abs(x); {
	case a >= 1000:
		digits = 0
	case a >= 10:
		digits = 1
	}
	text := humanize.CommafWithDigits(x, digits)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
