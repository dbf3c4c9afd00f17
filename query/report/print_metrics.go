package report

import "fmt"

// devicesShown and hostsShown bound what is printed; the rest is in Report, which has those with most points first.
const devicesShown, hostsShown = 2, 1

func (p *printer) metrics(r *Report) {
	if len(r.Devices)+len(r.Hosts) == 0 {
		return
	}
	p.section("The machine", "means over equal slices of each session, oldest first")
	g := &grid{columns: []column{{head: "what", stretch: true}, {head: "metric"}, {head: "over time", paint: p.st.bar},
		{head: "min", right: true, drop: 2}, {head: "mean", right: true}, {head: "max", right: true, drop: 1}}}
	percent := func(f float64) string { return fmt.Sprintf("%.0f %%", f) }
	watt := func(f float64) string { return fmt.Sprintf("%.0f W", f) }
	size := func(f float64) string { return bytesize(uint64(max(f, 0))) }
	degree := func(f float64) string { return fmt.Sprintf("%.0f °C", f) }
	row := func(what, metric string, c Curve, low, high float64, unit func(float64) string) {
		g.add(what, metric, spark(fewer(c.Values, p.Width/3), low, high), unit(c.Min), unit(c.Mean), unit(c.Max))
	}
	for _, d := range r.Devices[:min(len(r.Devices), devicesShown)] {
		row(fmt.Sprintf("%s  GPU %d %s", short(d.Session), d.ID, d.Name), "busy", d.Util, 0, 100, percent)
		row("", "power", d.Power, min(0, d.Power.Min), d.Power.Max, watt)
		row("", "memory", d.Used, 0, max(d.Total, d.Used.Max), size)
		row("", "temperature", d.Temp, min(20, d.Temp.Min), max(90, d.Temp.Max), degree)
	}
	for _, h := range r.Hosts[:min(len(r.Hosts), hostsShown)] {
		row(fmt.Sprintf("%s  host %s", short(h.Session), h.Hostname), "cpu", h.CPU, 0, 100, percent)
		row("", "memory", h.RAM, 0, max(h.Total, h.RAM.Max), size)
	}
	g.write(p.w, p.Width, p.st)
	if more := max(len(r.Devices)-devicesShown, 0) + max(len(r.Hosts)-hostsShown, 0); more > 0 {
		p.paragraph(fmt.Sprintf("and %d more; --session picks one session", more))
	}
}

// fewer averages neighbours until no more than n values are left, or two.
func fewer(values []float64, n int) []float64 {
	for len(values) > max(n, 2) {
		var half []float64
		for i := 0; i < len(values); i += 2 {
			pair := values[i:min(i+2, len(values))]
			sum := 0.0
			for _, v := range pair {
				sum += v
			}
			half = append(half, sum/float64(len(pair)))
		}
		values = half
	}
	return values
}
