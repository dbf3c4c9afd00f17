package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Style says how to print.
type Style struct {
	Width  int  // cells (0: 100)
	Colour bool // escape sequences for colour
	// HTTP is where to send the SQL that the report proposes, as http://127.0.0.1:8123; "" does not propose any.
	HTTP string
	// User is the user for that, and Login its arguments for curl, as -u "reader:$(cat FILE)"; "" for a user without a password.
	User, Login string
	// Sent is how many bytes went over the wire, if that is known; 0 leaves it out.
	Sent uint64
}

// printer writes sections one below the other.
type printer struct {
	w  *errWriter
	st style
	Style
}

// errWriter remembers the first error, so that printing needs to ask only once.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) Write(p []byte) (int, error) {
	if e.err == nil {
		_, e.err = e.w.Write(p)
	}
	return len(p), nil
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer, s Style) error {
	if s.Width == 0 {
		s.Width = 100
	}
	p := &printer{&errWriter{w: w}, style{s.Colour}, s}
	p.arrived(r)
	if len(r.Sessions)+len(r.Skipped) > 0 {
		p.insights(r)
		p.kernels(r)
		p.scopes(r)
		p.samples(r)
		p.copies(r)
		p.metrics(r)
	}
	p.rejects(r)
	p.books(r)
	if len(r.Skipped) > 0 {
		p.section("Left out", "")
		p.paragraph(strings.Join(r.Skipped, ", ") + ": more than the memory or time that one question may take. Ask for less with --session " +
			"or --tenant, or give the service more --clickhouse-memory.")
	}
	p.queries(r)
	return p.w.err
}

func (p *printer) section(title, more string) {
	fmt.Fprintf(p.w, "\n%s", p.st.title(title))
	if more != "" {
		room := p.Width - cells(title) - 2
		for cells(more) > room { // a note without its last clause is better than one with a hole in it
			at := strings.LastIndexAny(more, ";,")
			if at < 0 {
				break
			}
			more = more[:at]
		}
		fmt.Fprintf(p.w, "  %s", p.st.dim(cut(more, room)))
	}
	fmt.Fprintln(p.w)
}

// sessionsShown is how many sessions are listed even if --top asks for fewer rows of the other lists.
const sessionsShown = 20

func (p *printer) arrived(r *Report) {
	if slices.Contains(r.Skipped, "sessions") {
		return
	}
	if len(r.Sessions) == 0 {
		if r.Query.Session != "" || r.Query.Tenant != "" {
			p.section("Nothing matches", "")
		} else {
			p.section("Nothing here yet", "")
		}
		fmt.Fprintln(p.w, "  No session matches. Send one with \"warpline send FOLDER\", or point the GPU Flight agent here.")
		return
	}
	runs := r.runs()
	cubins := uint64(len(r.Sessions)-len(runs)) + r.Earlier.Cubins
	p.section("What arrived", plural(uint64(len(runs))+r.Earlier.Runs, "session"))
	if cubins > 0 {
		p.paragraph("and " + plural(cubins, "cubin") + " for source lines (the view cubins)")
	}
	// People look for the newest sessions, and a year's sessions would push the rest off the screen.
	shown := runs[max(len(runs)-max(r.Query.Top, sessionsShown), 0):]
	tenants := map[string]struct{}{}
	for _, s := range shown {
		tenants[s.Tenant] = struct{}{}
	}
	g := &grid{columns: []column{
		{head: "session"}, {head: "app", stretch: true}, {head: "host", drop: 2}, {head: "source", drop: 4}, {head: "state", paint: p.state},
		{head: "started (UTC)", drop: 3}, {head: "length", right: true, drop: 1}, {head: "kernels", right: true},
		{head: "samples", right: true, drop: 5},
	}}
	if len(tenants) > 1 { // the same id under two tenants is two sessions
		g.columns = slices.Insert(g.columns, 0, column{head: "tenant"})
	}
	ids, names := make([]string, len(shown)), make([]string, len(shown))
	for i, s := range shown {
		ids[i], names[i] = s.ID, s.Tenant
	}
	short, named := shortIDs(ids), distinct(names, 16)
	for i, s := range shown {
		// Without its job_start a session does not have a start: the column holds 1970 then.
		started, length := "–", "–"
		if s.Started.Unix() > 0 {
			started = s.Started.UTC().Format("Jan 02 15:04:05")
			if s.Ended.After(s.Started) {
				length = duration(uint64(s.Ended.Sub(s.Started)))
			}
		}
		row := []string{short[s.ID], s.App, s.Host, s.Source, s.State, started, length, count(s.Kernels), count(s.Samples)}
		if len(tenants) > 1 {
			row = slices.Insert(row, 0, named[i])
		}
		g.add(row...)
	}
	if len(shown) > 0 {
		g.write(p.w, p.Width, p.st)
	}
	if left := uint64(len(runs)-len(shown)) + r.Earlier.Runs; left > 0 {
		p.paragraph(fmt.Sprintf("and %s that began earlier: \"warpline session list\", or --top", plural(left, "session")))
	}
	var parts []string
	for _, c := range r.Rows {
		if c.Rows > 0 {
			parts = append(parts, c.Table+" "+count(c.Rows))
		}
	}
	p.paragraph("Rows by table: " + strings.Join(parts, " · "))
	p.tracesIn(runs)
}

// tracesIn says how to go on with traces: what GPUs waited for is in no section of this report.
func (p *printer) tracesIn(runs []Session) {
	last, n := "", uint64(0)
	for _, s := range runs {
		if s.Source == "trace" {
			last, n = s.ID, n+1
		}
	}
	if n > 0 {
		p.paragraph(fmt.Sprintf("%s of them: \"warpline report trace --session %s\" says where the time went.", plural(n, "Chrome trace"),
			short(last)))
	}
}

// runs are the sessions that are runs of programs: a cubin is a session too, so that it can be deleted as one.
func (r *Report) runs() (runs []Session) {
	for _, s := range r.Sessions {
		if !IsCubin(s.ID) {
			runs = append(runs, s)
		}
	}
	return runs
}

func (p *printer) state(s string) string {
	if s == "complete" {
		return p.st.good(s)
	}
	return p.st.bad(s)
}

// paragraph wraps at the width, indented by two; it never breaks inside a word.
func (p *printer) paragraph(t string) { p.wrapped("  ", t, func(s string) string { return s }) }

func (p *printer) wrapped(indent, t string, paint func(string) string) {
	line := ""
	for _, word := range strings.Fields(Printable(t)) {
		if line != "" && cells(indent)+cells(line)+1+cells(word) > p.Width {
			fmt.Fprintln(p.w, indent+paint(line))
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(p.w, indent+paint(line))
}

// barWidth leaves room for names on narrow terminals.
func (p *printer) barWidth() int { return min(max(p.Width/8, 8), 20) }

func (p *printer) kernels(r *Report) {
	if len(r.Kernels) == 0 && r.SyntheticCalls+r.DisturbedCalls == 0 {
		return
	}
	p.section("Top kernels", fmt.Sprintf("%s of %s, %s on the GPU", plural(r.KernelCalls, "call"),
		plural(r.KernelNames, "kernel"), duration(r.KernelNS)))
	if len(r.Kernels) > 0 {
		p.timings(r.Kernels, "kernel", r.KernelNS)
	}
	if n := r.SyntheticCalls; n > 0 {
		p.paragraph(plural(n, "call") + " left out: their durations are gaps between launches on the host, not time on the GPU " +
			"(kernels.synthetic)")
	}
	if n := r.DisturbedCalls; n > 0 {
		p.paragraph(plural(n, "call") + " left out: a deep window was open and kernels were replayed (kernels.disturbed)")
	}
	if n := r.DoubtfulCalls; n > 0 {
		p.paragraph(plural(n, "call") + " counted in hours in which a deep window was open (kernel_stats.disturbed)")
	}
}

func (p *printer) scopes(r *Report) {
	if len(r.Scopes) == 0 {
		return
	}
	p.section("Scopes", "wall time between begin and end")
	var most, odd uint64
	for _, s := range r.Scopes {
		most = max(most, s.TotalNS)
		odd += s.Unmatched
	}
	p.timings(r.Scopes, "scope", most)
	if odd > 0 {
		fmt.Fprintf(p.w, "  %s\n", p.st.bad(plural(odd, "scope")+" came with one end only"))
	}
}

func (p *printer) timings(list []Timing, what string, whole uint64) {
	g := &grid{columns: []column{
		{head: what, stretch: true}, {head: "calls", right: true}, {head: "total", right: true}, {head: "p50", right: true},
		{head: "p90", right: true, drop: 3},
		{head: "p99", right: true, drop: 1}, {head: "max", right: true, drop: 4}, {head: "", paint: p.st.bar, drop: 2},
	}}
	for _, t := range list {
		g.add(kernelName(Demangled(t.Name)), count(t.Calls), duration(t.TotalNS), duration(t.P50NS), duration(t.P90NS), duration(t.P99NS),
			duration(t.MaxNS), bar(t.TotalNS, whole, p.barWidth()))
	}
	g.write(p.w, p.Width, p.st)
}

func (p *printer) copies(r *Report) {
	if len(r.Copies) == 0 {
		return
	}
	var all uint64
	for _, c := range r.Copies {
		all += c.Bytes
	}
	p.section("Memory copies", bytesize(all)+" moved")
	g := &grid{columns: []column{{head: "kind", stretch: true}, {head: "copies", right: true}, {head: "bytes", right: true},
		{head: "time", right: true}, {head: "speed", right: true}, {head: "", paint: p.st.bar}}}
	for _, c := range r.Copies {
		g.add(c.Kind, count(c.Calls), bytesize(c.Bytes), duration(c.DurationNS), rate(c.Bytes, c.DurationNS), bar(c.Bytes, all, p.barWidth()))
	}
	g.write(p.w, p.Width, p.st)
}

// rejectsShown bounds the kinds of rejects in print; the rest is in Report.
const rejectsShown = 8

func (p *printer) rejects(r *Report) {
	if len(r.Rejects) == 0 {
		return
	}
	var all uint64
	for _, x := range r.Rejects {
		all += x.Events
	}
	p.section("Kept aside", plural(all, "event")+": refused, and kept in the view rejects")
	g := &grid{columns: []column{{head: "reason"}, {head: "type", stretch: true}, {head: "events", right: true}, {head: "size", right: true}}}
	for _, x := range r.Rejects[:min(len(r.Rejects), rejectsShown)] {
		g.add(x.Reason, x.Type, count(x.Events), bytesize(x.Bytes))
	}
	g.write(p.w, p.Width, p.st)
	if more := len(r.Rejects) - rejectsShown; more > 0 {
		p.paragraph(fmt.Sprintf("and %d more kinds; \"warpline reject list\" shows each", more))
	}
}

func (p *printer) books(r *Report) {
	b := r.Books
	if b.Events == 0 {
		return
	}
	p.section("The books", "received = stored + kept aside + duplicates")
	stored := b.Events - min(b.Events, b.Rejected+b.Duplicates)
	p.paragraph(fmt.Sprintf("%s received = %s stored + %s kept aside + %s duplicates", plural(b.Events, "event"), count(stored),
		count(b.Rejected), count(b.Duplicates)))
	line := fmt.Sprintf("%s of JSON", bytesize(b.Bytes))
	if p.Sent > 0 {
		line += fmt.Sprintf(", %s on the wire", bytesize(p.Sent))
	}
	line += fmt.Sprintf(" → %s at rest", bytesize(r.Disk.Bytes))
	if r.Disk.Bytes > 0 {
		line += fmt.Sprintf(" (1 : %s", digits(float64(b.Bytes)/float64(r.Disk.Bytes)))
		if r.Disk.Parts > 0 {
			line += fmt.Sprintf("; %s not merged yet", plural(r.Disk.Parts, "data part"))
		}
		line += ")"
	}
	p.paragraph(line)
}

// queries proposes SQL that answers the next questions, ready to paste.
func (p *printer) queries(r *Report) {
	if p.HTTP == "" || len(r.Sessions) == 0 {
		return
	}
	db := r.Query.Database
	login := ""
	if p.Login != "" {
		login = p.Login + " "
	}
	p.section("Ask on", "SQL over HTTP, as user "+p.User)
	session := append(r.runs(), r.Sessions...)[0].ID
	for _, s := range r.Sessions {
		if s.Kernels > 0 {
			session = s.ID
			break
		}
	}
	for _, q := range []struct{ why, sql string }{
		{"Which launches of a kernel are slow, and with what shape?",
			"SELECT kernel, grid, block, count() AS calls, max(duration_ns) AS worst_ns FROM " + db +
				".kernels GROUP BY ALL ORDER BY worst_ns DESC LIMIT 10"},
		{"On which lines do warps wait, and what helps?",
			"SELECT file, line, stall_reason, sum(samples) AS n, any(remedy) FROM " + db + ".pc_lines AS l LEFT JOIN " +
				db + ".stall_reasons AS s ON s.name = l.stall_reason WHERE reason_kind = 'stall' GROUP BY ALL ORDER BY n DESC LIMIT 10"},
		{"What did one session do, second by second?",
			"SELECT toStartOfSecond(started_at) AS t, count() AS kernels, sum(duration_ns) / 1e9 AS busy_gpus FROM " +
				db + ".kernels WHERE session_id = '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(session) + "' GROUP BY t ORDER BY t"},
	} {
		fmt.Fprintf(p.w, "  %s\n", p.st.dim(q.why))
		fmt.Fprintf(p.w, "    curl %s%s --data-binary @- <<'SQL'\n    %s FORMAT PrettyCompact\n    SQL\n", login, "'"+p.HTTP+"/'",
			Printable(q.sql))
	}
}
