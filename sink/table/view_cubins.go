package table

import (
	"fmt"
	"text/template"
)

// cubinFuncs are what the views of cubins and launch stacks are written with.
func cubinFuncs() template.FuncMap {
	return template.FuncMap{"symbolstatus": symbolStatusSQL, "chain": chainSQL, "stackid": stackIDSQL,
		"stacknotkept": func() int { return StackNotKept }}
}

// symbolStatusSQL says of a row of with_lines whether it has a line, or why not. A function of which some instructions have no line was
// compiled without it.
func symbolStatusSQL(row, line string) string {
	return fmt.Sprintf("multiIf(%[1]s.symbol != '', %[1]s.symbol, %[2]s.line != 0 OR %[2]s.file != '', 'ok', 'no_lineinfo')", row, line)
}

// chainSQL is the lines of a text as an array, empty for an empty text.
func chainSQL(text string) string {
	return fmt.Sprintf("if(%[1]s = '', emptyArrayString(), splitByChar('\\n', toString(%[1]s)))", text)
}

// stackIDSQL is the id of a content as 32 hex digits.
func stackIDSQL(row string) string {
	return fmt.Sprintf("lower(concat(leftPad(hex(%[1]s.content_hi), 16, '0'), leftPad(hex(%[1]s.content_lo), 16, '0')))", row)
}
