package table

import (
	"fmt"
	"slices"
	"strings"
)

// insightRules are the views of single rules, which the view insights puts together: every view whose name begins with insight_.
func (s *Schema) insightRules() (rules []string) {
	for i := range s.views {
		if strings.HasPrefix(s.views[i].Name, "insight_") {
			rules = append(rules, s.views[i].Name)
		}
	}
	slices.Sort(rules)
	return rules
}

// percentSQL is a ratio as people read it.
func percentSQL(of string) string {
	return fmt.Sprintf("concat(toString(round(100 * %s, 1)), ' %%')", of)
}

// kernelNameSQL names the kernel of a row that has kernel and id, which is 0 when the name is known.
func kernelNameSQL(row string) string {
	return fmt.Sprintf("if(%[1]s.kernel = '', concat('kernel ', toString(%[1]s.id)), toString(%[1]s.kernel))", row)
}

// functionNameSQL is the same for functions.
func functionNameSQL(row string) string {
	return fmt.Sprintf("if(%[1]s.function = '', concat('function ', toString(%[1]s.id)), toString(%[1]s.function))", row)
}

// callSiteSQL names where a synchronisation was called from: its stack, and where there is none what it was.
func callSiteSQL(row string) string {
	return fmt.Sprintf("multiIf(%[1]s.stack_trace != '', %[1]s.stack_trace, %[1]s.id != 0, concat(%[1]s.type, ' at call stack ', toString(%[1]s.id)), concat(%[1]s.type, ' without a call stack'))", row)
}
