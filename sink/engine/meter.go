package engine

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// meter shows how far one step of a fetch has come: a bar on a terminal, else a line at the start,
// one each quarter and one at the end, so that a build log stays readable. One goroutine at a time.
type meter struct {
	w       io.Writer
	what    string
	total   int64
	quarter int64
	began   time.Time
	bar     *progressbar.ProgressBar // nil when w is not a terminal
}

func newMeter(w io.Writer, what string, total int64) *meter {
	m := &meter{w: w, what: what, total: total, began: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		m.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(true),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true))
		return m
	}
	fmt.Fprintf(w, "%s (%s)\n", what, humanize.IBytes(uint64(total)))
	return m
}

// set says that n bytes of the total are there.
func (m *meter) set(n int64) {
	if m.bar != nil {
		_ = m.bar.Set64(n) // a bar that cannot be drawn must not stop the fetch
		return
	}
	if q := n * 4 / max(m.total, 1); q > m.quarter && q < 4 {
		m.quarter = q
		fmt.Fprintf(m.w, "  %d %%\n", q*25)
	}
}

// finish says that the step is complete.
func (m *meter) finish() {
	if m.bar != nil {
		_ = m.bar.Finish()
		fmt.Fprintln(m.w)
		return
	}
	fmt.Fprintf(m.w, "  done in %s\n", time.Since(m.began).Round(100*time.Millisecond))
}

// abandon leaves the line of a bar whose step failed, so that the error starts on its own.
func (m *meter) abandon() {
	if m.bar != nil {
		fmt.Fprintln(m.w)
	}
}
