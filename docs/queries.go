// Package docs holds the pages for people. Its code gives the program what it quotes of them.
package docs

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed queries.md
var queries string

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// Question is one of the example questions of queries.md.
type Question struct {
	About string // what it asks, the comment above it
	SQL   string
}

// Questions returns the example questions of queries.md, in their order.
func Questions() (all []Question) {
	for _, block := range sqlBlock.FindAllStringSubmatch(queries, -1) {
		for text := range strings.SplitSeq(block[1], ";\n") {
			text = strings.TrimSpace(text)
			if about, query, ok := strings.Cut(text, "\n"); ok {
				all = append(all, Question{strings.TrimSpace(strings.TrimPrefix(about, "--")), query})
			}
		}
	}
	return all
}
