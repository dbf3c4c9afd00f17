package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/proto/stream"
)

// SoakHead is the line above the minutes, and PrintMinute a line of one: both have the same columns, since each is printed when its minute
// is over.
const SoakHead = "min  sessions  behind  cpu/burst    idle    roles   engine     heap    names    state  sessions kept  parts    stored  " +
	"small p50     max"

// PrintMinute writes one minute.
func PrintMinute(w io.Writer, m *SoakMinute) error {
	_, err := fmt.Fprintf(w, "%3d  %8d  %5.1f s  %7.2f s  %5.2f c  %7s  %7s  %7s  %7s  %7s  %13d  %5d  %8s  %7.2f s  %5.2f s\n",
		m.Minute, m.Sessions, m.Behind.Seconds(), m.BurstCPU.Seconds(), m.IdleCores, short(m.RolesBytes), short(m.EngineBytes),
		short(m.Worker.HeapBytes), short(m.Worker.NamesBytes), short(m.Worker.StateBytes), m.Worker.Sessions, m.DataParts,
		short(m.StoredBytes), m.SmallP50.Seconds(), m.SmallMax.Seconds())
	return err
}

func short(n int64) string { return strings.ReplaceAll(humanize.Bytes(uint64(max(n, 0))), " ", "") }

// Print writes what the minutes come to.
func (s *Soak) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nwarpline bench --soak: %s, %.3g sessions/s of %s kernels for %v, on %s/%s, %d cores\n", s.Workload, s.SessionsPerSecond,
		humanize.Comma(int64(s.KernelsPerSession)), s.For, s.Machine.OS, s.Machine.Arch, s.Machine.Cores)
	fmt.Fprintf(&b, "sent      %s sessions, %s kernels\n", humanize.Comma(s.Sessions), humanize.Comma(s.Kernels))
	fmt.Fprintf(&b, "idle      %.3f cores, in the second minute after the last session\n\n", s.IdleAfter)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if first, last, ok := s.halves(); ok {
		fmt.Fprintf(t, "STEADY?\t%s\t%s\tCHANGE\n", first.name, last.name)
		row := func(name, unit string, of func(*SoakMinute) float64) {
			a, z := mean(first.minutes, of), mean(last.minutes, of)
			change := "-"
			if a > 0 {
				change = fmt.Sprintf("%+.0f %%", 100*(z/a-1))
			}
			fmt.Fprintf(t, "%s\t%.2f %s\t%.2f %s\t%s\n", name, a, unit, z, unit, change)
		}
		row("memory of roles", "MB", func(m *SoakMinute) float64 { return float64(m.RolesBytes) / mb })
		row("memory of the engine", "MB", func(m *SoakMinute) float64 { return float64(m.EngineBytes) / mb })
		row("CPU of a burst", "s", func(m *SoakMinute) float64 { return m.BurstCPU.Seconds() })
		row("cores between bursts", "", func(m *SoakMinute) float64 { return m.IdleCores })
		row("data parts in ClickHouse", "", func(m *SoakMinute) float64 { return float64(m.DataParts) })
		row("small tenant, p50", "s", func(m *SoakMinute) float64 { return m.SmallP50.Seconds() })
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, "STREAM OR BUCKET\tAT THE END\tA SESSION\tIN 7 DAYS AT THIS LOAD\tLIMIT")
	for _, x := range s.Stores {
		week, each := "-", "-"
		if perSecond, ok := s.growth(x.Name); ok {
			bytes := float64(x.Bytes) + max(0, perSecond)*keeps(x.Name).Seconds()
			week = size(bytes)
			if x.MaxBytes > 0 && bytes > float64(x.MaxBytes) {
				week = "full"
			}
			each = size(max(0, perSecond) / s.SessionsPerSecond)
		}
		limit := "-"
		if x.MaxBytes > 0 {
			limit = size(float64(x.MaxBytes))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", x.Name, size(float64(x.Bytes)), each, week, limit)
	}
	t.Flush()
	for _, x := range s.Wrong {
		fmt.Fprintf(&b, "\nWRONG  %s\n", x)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// keeps is for how much of the 7 days a store keeps what sessions left in it: workers forget a silent session after a day.
func keeps(store string) time.Duration {
	const day = 24 * time.Hour
	if store == "OBJ_"+stream.StateObjects {
		return day
	}
	return 7 * day
}

// stretch is some minutes in a row.
type stretch struct {
	name    string
	minutes []SoakMinute
}

// halves are the minutes that should be alike: those from the 15th on, or of a short soak the second half, cut in two.
func (s *Soak) halves() (first, last stretch, ok bool) {
	from := min(14, len(s.Minutes)/2)
	rest := s.Minutes[from:]
	if len(rest) < 2 {
		return first, last, false
	}
	name := func(of []SoakMinute) string { return fmt.Sprintf("MINUTES %d-%d", of[0].Minute, of[len(of)-1].Minute) }
	a, z := rest[:len(rest)/2], rest[len(rest)/2:]
	return stretch{name(a), a}, stretch{name(z), z}, true
}

func mean(of []SoakMinute, value func(*SoakMinute) float64) (sum float64) {
	for i := range of {
		sum += value(&of[i])
	}
	return sum / float64(len(of))
}

// growth is how many bytes a second a store has grown by in the second half of the soak.
func (s *Soak) growth(store string) (perSecond float64, ok bool) {
	at := func(m *SoakMinute) (float64, bool) {
		for _, x := range m.Stores {
			if x.Name == store {
				return float64(x.Bytes), true
			}
		}
		return 0, false
	}
	if len(s.Minutes) < 2 {
		return 0, false
	}
	from, to := &s.Minutes[len(s.Minutes)/2-1], &s.Minutes[len(s.Minutes)-1]
	a, okA := at(from)
	z, okZ := at(to)
	seconds := (time.Duration(to.Minute-from.Minute) * time.Minute).Seconds()
	return (z - a) / seconds, okA && okZ && seconds > 0
}
