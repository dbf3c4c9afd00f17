package report

import (
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Insight is something that stands out, with what to do about it.
type Insight struct {
	Session  string `json:"session_id"`
	Rule     string `json:"rule"`
	Severity string `json:"severity"` // high, medium, low
	Subject  string `json:"subject"`  // a kernel, a function, a device, a call site
	Message  string `json:"message"`
	// Share is the subject's part of its session: of the kernel time, or of the samples; nil when it is not known.
	Share *float64 `json:"share,omitempty"`
	// Sessions is in how many sessions the same was found; Session is the one where it weighs most.
	Sessions uint64 `json:"sessions"`
}

// Spot is an instruction by its PC samples.
type Spot struct {
	Function string `json:"function"`
	PCOffset uint64 `json:"pc_offset"`
	File     string `json:"file"`
	Line     uint32 `json:"line"`
	Source   string `json:"source"` // text of the line
	SASS     string `json:"sass"`
	Samples  uint64 `json:"samples"`
	TopStall string `json:"top_stall"`
}

// insightsRead and insightsShown bound the insights of a report and of its print.
const insightsRead, insightsShown = 50, 5

// insightSessions is in how many sessions a report looks for insights: they compare what is in one session, so that those of ten thousand
// take more memory than a reader may have.
const insightSessions = 500

func readInsights(in *reader, r *Report) error {
	from, args := in.from("insights")
	if runs := r.runs(); len(runs) > insightSessions {
		r.InsightsOf = insightSessions
		var asked []any
		for _, s := range runs[len(runs)-insightSessions:] {
			asked = append(asked, s.ID)
		}
		from, args = in.from("insights", "session_id IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(asked)), ", ")+")")
		args = append(asked, args...)
	}
	return in.each(fmt.Sprintf(`SELECT argMax(session_id, w), rule, argMax(severity, w), subject, argMax(message, w), max(part), `+
		`uniqExact(tenant, session_id), min(rank) AS worst, max(w) AS heaviest FROM (
			SELECT tenant, toString(session_id) AS session_id, toString(rule) AS rule, toString(severity) AS severity, toString(subject) AS `+
		`subject, message, share AS part,
				multiIf(severity = 'high', 1, severity = 'medium', 2, 3) AS rank, (3 - rank, ifNull(share, 0), message) AS w FROM %s)
		GROUP BY rule, subject ORDER BY worst, heaviest.2 DESC, rule, subject LIMIT %d`, from, insightsRead), args, func(rows driver.Rows) error {
		var i Insight
		var rank uint8
		var weight []any
		if err := rows.Scan(&i.Session, &i.Rule, &i.Severity, &i.Subject, &i.Message, &i.Share, &i.Sessions, &rank, &weight); err != nil {
			return err
		}
		r.Insights = append(r.Insights, i)
		return nil
	})
}

// hasAny reports whether any session has rows in a table of code or texts. A session may be lent those of another, so a tenant is asked for
// as a whole.
func (in *reader) hasAny(table string, more ...string) (bool, error) {
	all := *in
	all.q.Session = ""
	from, args := all.from(table, more...)
	var n uint64
	err := in.conn.QueryRow(in.ctx, "SELECT count() FROM (SELECT 1 FROM "+from+" LIMIT 1)", args...).Scan(&n)
	return n > 0, err
}

// readSpots reads the known instructions with most samples.
func readSpots(in *reader, r *Report) error {
	if r.Samples == 0 {
		return nil
	}
	if code, err := in.hasAny("session_functions_data", "kind = 'sass'"); err != nil || !code {
		return err
	}
	from, args := in.from("source_profile", "samples > 0", "sass != ''")
	return in.each(fmt.Sprintf(`SELECT toString(function) AS f, pc_offset, toString(argMax(file, samples)), argMax(line, samples), `+
		`argMax(source, samples), argMax(sass, samples), sum(samples) AS n, toString(argMax(top_stall, samples))
		FROM %s GROUP BY f, pc_offset ORDER BY n DESC, f, pc_offset LIMIT %d`, from, in.q.Top), args, func(rows driver.Rows) error {
		var s Spot
		if err := rows.Scan(&s.Function, &s.PCOffset, &s.File, &s.Line, &s.Source, &s.SASS, &s.Samples, &s.TopStall); err != nil {
			return err
		}
		r.Spots = append(r.Spots, s)
		return nil
	})
}

// readTexts reads the text of the hottest lines.
func readTexts(in *reader, r *Report) error {
	if len(r.Lines) == 0 {
		return nil
	}
	if texts, err := in.hasAny("session_sources_data"); err != nil || !texts {
		return err
	}
	from, args := in.from("source_files", "1")
	var places []string
	for _, l := range r.Lines {
		places = append(places, "(?, ?)")
		args = append(args, l.File, l.Line)
	}
	return in.each("SELECT toString(path) AS p, line, any(text) FROM "+from+" AND (path, line) IN ("+
		strings.Join(places, ", ")+") GROUP BY p, line", args, func(rows driver.Rows) error {
		var path, text string
		var line uint32
		if err := rows.Scan(&path, &line, &text); err != nil {
			return err
		}
		for i := range r.Lines {
			if l := &r.Lines[i]; l.File == path && l.Line == line {
				l.Source = text
			}
		}
		return nil
	})
}

func (p *printer) insights(r *Report) {
	if len(r.Insights) == 0 {
		return
	}
	shown := r.Insights[:min(len(r.Insights), insightsShown)]
	more := "worst first"
	if n := len(r.Insights) - len(shown); n > 0 {
		more = fmt.Sprintf("worst first; the view insights has %d more", n)
		if len(r.Insights) == insightsRead {
			more = "worst first; the view insights has more"
		}
	}
	if r.InsightsOf > 0 {
		more += fmt.Sprintf(", of the %d sessions that began last", r.InsightsOf)
	}
	p.section("Insights", more)
	var wide [2]int
	for _, i := range shown {
		wide = [2]int{max(wide[0], cells(i.Severity)), max(wide[1], cells(i.Rule))}
	}
	room, subjects, weights := p.Width, make([]string, len(shown)), make([]string, len(shown))
	for k, i := range shown {
		if i.Share != nil {
			weights[k] = "  " + percent(uint64(*i.Share*1e6), 1e6) + " of the " + shareOf(i.Rule)
		}
		subjects[k] = strings.ReplaceAll(i.Subject, "|", " › ")
		room = min(room, max(p.Width-wide[0]-wide[1]-6-cells(weights[k]), leastEver))
	}
	subjects = distinct(subjects, room)
	for k, i := range shown {
		severity := i.Severity + strings.Repeat(" ", wide[0]-cells(i.Severity))
		if i.Severity == "high" {
			severity = p.st.bad(severity)
		}
		rule := i.Rule + strings.Repeat(" ", wide[1]-cells(i.Rule))
		fmt.Fprintf(p.w, "  %s  %s  %s%s\n", severity, p.st.dim(rule), subjects[k], p.st.dim(weights[k]))
		p.note(i.Message)
	}
}

// spots lists instructions with what they are and where they come from.
func (p *printer) spots(r *Report) {
	if len(r.Spots) == 0 {
		return
	}
	p.section("Hottest instructions", "")
	g := &grid{columns: []column{
		{head: "instruction", stretch: true}, {head: "at", drop: 1}, {head: "samples", right: true, drop: 4}, {head: "share", right: true},
		{head: "mostly", drop: 2}, {head: "source", drop: 3},
	}}
	places := make([]string, len(r.Spots))
	for i, s := range r.Spots {
		places[i] = s.Function
		if s.Line > 0 {
			places[i] = base(s.File)
		}
	}
	places = distinct(places, 24)
	for i, s := range r.Spots {
		at := fmt.Sprintf("%s+0x%x", places[i], s.PCOffset)
		if s.Line > 0 {
			at = fmt.Sprintf("%s:%d", places[i], s.Line)
		}
		g.add(s.SASS, at, count(s.Samples), percent(s.Samples, r.Samples), stallName(s.TopStall),
			cut(strings.TrimSpace(s.Source), max(p.Width/3, 20)))
	}
	g.write(p.w, p.Width, p.st)
}

// base is the last element of a path of either kind.
func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// shareOf says what an insight's share is a share of.
func shareOf(rule string) string {
	switch rule {
	case "stall":
		return "samples"
	case "divergence":
		return "instructions"
	}
	return "kernel time"
}
