package report

import (
	"fmt"
	"strings"
)

// phasesShown and issuesShown bound what is printed; the rest is in Memory.
const phasesShown, issuesShown = 16, 12

func (p *printer) memoryPhases(m *Memory) {
	if len(m.Phases) == 0 {
		return
	}
	p.section("Phases", "what programs said they were doing, and which hidden gaps began meanwhile")
	g := &grid{columns: []column{
		{head: "phase", stretch: true}, {head: "times", right: true}, {head: "total", right: true}, {head: "longest", right: true, drop: 1},
		{head: "ranks", drop: 3}, {head: "gaps", right: true, drop: 2},
		{head: "", paint: p.st.bar, drop: 4},
	}}
	for _, f := range m.Phases[:min(len(m.Phases), phasesShown)] {
		gaps := "–"
		if f.Findings > 0 {
			gaps = count(f.Findings)
		}
		g.add(f.Phase, count(f.Times), duration(f.TotalNS), duration(f.LongNS), cut(ranges(f.Ranks), 16),
			gaps, bar(f.TotalNS, m.Phases[0].TotalNS, p.barWidth()))
	}
	g.write(p.w, p.Width, p.st)
	open := uint64(0)
	for _, f := range m.Phases {
		open += f.Open
	}
	if open > 0 {
		p.paragraph(plural(open, "phase") + " did not end: counted up to the last event of the rank.")
	}
	if more := len(m.Phases) - phasesShown; more > 0 {
		p.paragraph(fmt.Sprintf("and %d more; --json has them all", more))
	}
}

func (p *printer) memoryIssues(m *Memory) {
	if len(m.Issues) == 0 {
		return
	}
	p.section("Issues", "each once, however often it was hit; memory_issues has them in SQL")
	for _, i := range m.Issues[:min(len(m.Issues), issuesShown)] {
		mark := p.st.dim
		if i.Severity != "info" {
			mark = p.st.bad
		}
		head := fmt.Sprintf("%-8s  ", i.Severity)
		words := []string{i.Title, count(i.Hits) + " times"}
		if i.Hits == 1 {
			words = words[:1]
		}
		if len(i.Ranks) > 0 {
			words = append(words, strings.TrimSuffix("ranks", map[bool]string{true: "s"}[len(i.Ranks) == 1])+" "+cut(ranges(i.Ranks), 16))
		}
		if i.Sessions > 1 {
			words = append(words, plural(i.Sessions, "session"))
		}
		if i.Phase != "" {
			words = append(words, "in "+i.Phase)
		}
		words = append(words, i.First.UTC().Format("Jan 02 15:04:05"), i.ID)
		fmt.Fprintf(p.w, "  %s%s\n", mark(head), fitting(p.Width-2-len(head), words...))
	}
	if more := len(m.Issues) - issuesShown; more > 0 {
		p.paragraph(fmt.Sprintf("and %d more; --json has them all", more))
	}
}
