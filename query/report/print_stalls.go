package report

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// linesShown bounds the lines of a kernel in print; the rest is in Stalls.
const linesShown = 5

// Print writes the report as text.
func (s *Stalls) Print(w io.Writer, st Style) error {
	if st.Width == 0 {
		st.Width = 100
	}
	p := &printer{&errWriter{w: w}, style{st.Colour}, st}
	if s.Samples == 0 {
		p.noStalls(s)
		return p.w.err
	}
	p.stallKernels(s)
	for i := range s.Kernels {
		p.stallLines(&s.Kernels[i])
	}
	p.unsymbolized(s)
	p.twoOpcodes(s)
	p.rose(s)
	p.section("Next", "")
	p.paragraph("A flame graph of the same: \"warpline pprof --type pc -o FILE\" with the same flags, then \"go tool pprof FILE\".")
	return p.w.err
}

func (p *printer) noStalls(s *Stalls) {
	if named := s.Query.Named(); named != "" {
		p.section("Nothing matches", "")
		p.paragraph("No PC samples are of " + named + "; \"warpline report stalls\" alone shows what there is.")
		return
	}
	p.section("No PC samples yet", "")
	p.paragraph("Point a Parca agent with CUDA PC sampling here, or send a capture of GPU Flight with it.")
}

func (p *printer) stallKernels(s *Stalls) {
	p.section("Stalls", plural(s.Samples, "PC sample")+": where warps were; shares are safe, times are not made of them")
	g := &grid{columns: []column{{head: "kernel", stretch: true}, {head: "samples", right: true, drop: 2}, {head: "share", right: true},
		{head: "", paint: p.st.bar, drop: 3}, {head: "ran for", right: true, drop: 1}}}
	for _, k := range s.Kernels {
		ran := "–"
		if k.KernelNS > 0 {
			ran = duration(k.KernelNS)
		}
		g.add(kernelName(k.Demangled), count(k.Samples), percent(k.Samples, s.Samples), bar(k.Samples, s.Samples, p.barWidth()), ran)
	}
	g.write(p.w, p.Width, p.st)
}

func (p *printer) stallLines(k *StallKernel) {
	name := cut(kernelName(k.Demangled), p.Width)
	p.section(name, "")
	g := &grid{columns: []column{{head: "line", stretch: true}, {head: "samples", right: true, drop: 3}, {head: "share", right: true},
		{head: "", paint: p.st.bar, drop: 2}, {head: "mostly", drop: 1}}}
	for _, l := range k.Lines[:min(len(k.Lines), linesShown)] {
		var why []string
		for _, r := range l.Reasons[:min(len(l.Reasons), reasonsShown)] {
			why = append(why, stallName(r.Reason)+" "+percent(r.Samples, l.Samples))
		}
		g.add(lineName(l.File, l.Line), count(l.Samples), percent(l.Samples, k.Samples), bar(l.Samples, k.Samples, p.barWidth()),
			strings.Join(why, ", "))
	}
	g.write(p.w, p.Width, p.st)
}

// causes says of a symbol_status what it means and what to do.
var causes = map[string]string{
	"none":            "the client sends neither a line nor a cubin",
	"pending":         "the cubin has not come yet; the lines appear by themselves when it does",
	"not_uploaded":    "the cubin never came: keep the agent's --debuginfo-… flags at their defaults, or \"warpline send FILE.cubin\"",
	"no_lineinfo":     "compile the kernels with -lineinfo",
	"ambiguous_name":  "samples have the first 127 characters of a name, and several kernels begin so",
	"ambiguous_cubin": "several cubins have this build id",
	"no_function":     "the cubin does not have this kernel: is it of another build?",
	"corrupt":         "the cubin cannot be read: the view cubins says why in detail",
}

func (p *printer) unsymbolized(s *Stalls) {
	if len(s.Unsymbolized) == 0 {
		return
	}
	var all uint64
	for _, u := range s.Unsymbolized {
		all += u.Samples
	}
	p.section("Without a line", percent(all, s.Samples)+" of the samples")
	for _, u := range s.Unsymbolized {
		fmt.Fprintf(p.w, "  %-16s %8s  %s\n", cut(u.Status, 16), percent(u.Samples, s.Samples),
			p.st.bar(bar(u.Samples, s.Samples, p.barWidth())))
		if text := causes[u.Status]; text != "" {
			p.note(text)
		}
	}
}

func (p *printer) twoOpcodes(s *Stalls) {
	if len(s.TwoOpcodes) == 0 {
		return
	}
	p.section("Two opcodes at one place", plural(s.TwoPlaces, "place")+": the agent mixed up kernels of one cubin; doubt these lines")
	g := &grid{columns: []column{{head: "kernel", stretch: true}, {head: "offset", right: true}, {head: "samples", right: true, drop: 1},
		{head: "opcodes"}}}
	for _, t := range s.TwoOpcodes {
		var codes []string
		for _, c := range t.Opcodes[:min(len(t.Opcodes), reasonsShown)] {
			codes = append(codes, cut(c.Name, 16)+" "+percent(c.Samples, t.Samples))
		}
		g.add(kernelName(s.demangled(t.Function)), fmt.Sprintf("%#x", t.PCOffset), count(t.Samples), strings.Join(codes, ", "))
	}
	g.write(p.w, p.Width, p.st)
}

func (p *printer) rose(s *Stalls) {
	if s.Query.Base == nil {
		return
	}
	p.section("What rose", "shares of a kernel's samples, now and in the base")
	if s.BaseSamples == 0 {
		p.paragraph("The base has no PC samples: name another build or another time.")
		return
	}
	if len(s.Rose) == 0 {
		p.paragraph("No share rose in a kernel that has samples in both.")
		return
	}
	g := &grid{columns: []column{{head: "kernel", stretch: true}, {head: "line", drop: 2}, {head: "reason"}, {head: "now", right: true},
		{head: "base", right: true}, {head: "", paint: p.st.dim, drop: 1}}}
	few := false
	for _, r := range s.Rose {
		doubt := ""
		if r.byChance() {
			doubt, few = "few samples", true
		}
		g.add(kernelName(r.Demangled), cut(lineName(r.File, r.Line), p.Width/3), cut(stallName(r.Reason), 24), share(r.Share),
			share(r.BaseShare), doubt)
	}
	g.write(p.w, p.Width, p.st)
	if few {
		p.paragraph("Few samples: the rise is within what chance does; select a longer time.")
	}
}

// byChance reports whether two looks at the same kernel would differ as much now and then: the rise is below two standard errors.
func (r *RoseShare) byChance() bool {
	n, b := float64(r.Samples), float64(r.Before)
	both := (r.Share*n + r.BaseShare*b) / (n + b)
	return r.Share-r.BaseShare < 2*math.Sqrt(both*(1-both)*(1/n+1/b))
}

// demangled is the name of a kernel as the list of kernels has it, or as on the wire.
func (s *Stalls) demangled(function string) string {
	for _, k := range s.Kernels {
		if k.Function == function {
			return k.Demangled
		}
	}
	return function
}

func kernelName(name string) string {
	if name == "" {
		return "(name not known yet)"
	}
	return name
}

func lineName(file string, line uint32) string {
	if file == "" && line == 0 {
		return "(line not known)"
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// share is a part of 1 as percent has it.
func share(f float64) string { return percent(uint64(math.Round(f*1e6)), 1e6) }
