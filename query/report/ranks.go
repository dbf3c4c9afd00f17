package report

import (
	"fmt"
	"strconv"
	"strings"
)

// Ranks says which ranks of a job are meant. The zero value means all.
type Ranks struct {
	ranges [][2]int64
	text   string
}

// maxRanges bounds what a rank filter may list: it becomes part of a query.
const maxRanges = 256

// ParseRanks reads "all", "*", or ranks and ranges of ranks, as 0,2,4-7. White space does not count; an empty text means all.
func ParseRanks(text string) (Ranks, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" || text == "all" || text == "*" {
		return Ranks{}, nil
	}
	r := Ranks{text: text}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := rankNumber(from)
		b, errB := rankNumber(to)
		if errA != nil || errB != nil {
			return Ranks{}, fmt.Errorf("%q is not a rank or a range of ranks: write all, or ranks as 0,2,4-7", part)
		}
		if a > b {
			return Ranks{}, fmt.Errorf("%q ends before it begins: write the lower rank first", part)
		}
		r.ranges = append(r.ranges, [2]int64{a, b})
	}
	if len(r.ranges) == 0 {
		return Ranks{}, fmt.Errorf("%q does not name a rank: write all, or ranks as 0,2,4-7", text)
	}
	if len(r.ranges) > maxRanges {
		return Ranks{}, fmt.Errorf("%d ranks and ranges are more than %d: join neighbours to ranges", len(r.ranges), maxRanges)
	}
	return r, nil
}

// rankNumber takes digits only: ParseInt would take a sign too.
func rankNumber(s string) (int64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 63)
	return int64(n), err
}

// All reports whether all ranks are meant.
func (r Ranks) All() bool { return len(r.ranges) == 0 }

// Has reports whether rank is meant.
func (r Ranks) Has(rank int64) bool {
	for _, s := range r.ranges {
		if s[0] <= rank && rank <= s[1] {
			return true
		}
	}
	return r.All()
}

// String is what ParseRanks reads.
func (r Ranks) String() string {
	if r.All() {
		return "all"
	}
	return r.text
}

// MarshalText puts what was asked into JSON.
func (r Ranks) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// sql is the condition that a column is one of the ranks, "" for all.
func (r Ranks) sql(column string) string {
	if r.All() {
		return ""
	}
	parts := make([]string, len(r.ranges))
	for i, s := range r.ranges {
		parts[i] = fmt.Sprintf("%s BETWEEN %d AND %d", column, s[0], s[1])
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// ranges writes rising numbers the short way: 0-2, 5.
func ranges(ranks []int64) string {
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		part := strconv.FormatInt(ranks[i], 10)
		if j > i {
			part += "-" + strconv.FormatInt(ranks[j], 10)
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
