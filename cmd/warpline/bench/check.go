package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// want is a query that must answer these numbers when everything is visible.
type want struct {
	name, query string
	numbers     []int64
}

// where filters a service that others send to as well by the sessions of d.
func where(svc *Service, d *Data) string {
	if svc.Alone {
		return ""
	}
	return " WHERE session_id IN " + inSessions(d)
}

func inSessions(d *Data) string {
	ids := make([]string, len(d.Sessions))
	for i := range d.Sessions {
		ids[i] = "'" + d.Sessions[i].ID + "'"
	}
	return "(" + strings.Join(ids, ",") + ")"
}

// polls is what is asked while waiting: cheap counts over base tables, so that asking does not disturb the measurement.
func polls(c Counts, filter string) []want {
	all := []want{
		{"kernels", "SELECT count() FROM kernels_data", []int64{c.Kernels}},
		{"memcpys", "SELECT count() FROM memcpys_data", []int64{c.Memcpys}},
		{"scopes", "SELECT count() FROM scopes_data", []int64{c.ScopePairs}},
		{"host_metrics", "SELECT count() FROM host_metrics_data", []int64{c.HostRows}},
		{"device_metrics", "SELECT count() FROM device_metrics_data", []int64{c.DeviceRows}},
		{"pc_samples", "SELECT sum(hits) FROM pc_samples_data", []int64{c.PCRows}},
		{"kernel_stats", "SELECT sum(calls) FROM kernel_stats_data", []int64{c.Kernels}},
		{"scope_stats", "SELECT sum(calls) FROM scope_stats_data", []int64{c.ScopePairs}},
		{"host_metrics_1m", "SELECT sum(samples) FROM host_metrics_1m_data", []int64{c.HostRows}},
		{"device_metrics_1m", "SELECT sum(samples) FROM device_metrics_1m_data", []int64{c.DeviceRows}},
	}
	return expected(all, filter)
}

// finals is what is asked once, at the end, in the views of the SQL contract.
func finals(c Counts, filter string) []want {
	all := []want{
		{"kernels", "SELECT count(), sum(duration_ns) FROM kernels", []int64{c.Kernels, c.KernelNS}},
		{"kernel_stats", "SELECT sum(calls), sum(total_ns) FROM kernel_stats", []int64{c.Kernels, c.KernelNS}},
		{"kernels with a launch shape", "SELECT countIf(grid != '') FROM kernels", []int64{c.Details}},
		{"memcpys", "SELECT count() FROM memcpys", []int64{c.Memcpys}},
		{"scopes", "SELECT countIf(matched) FROM scopes", []int64{c.ScopePairs}},
		{"scope_stats", "SELECT sum(calls) FROM scope_stats", []int64{c.ScopePairs}},
		{"pc_samples", "SELECT sum(samples) FROM pc_samples", []int64{c.PCSamples}},
		{"host_metrics", "SELECT count() FROM host_metrics", []int64{c.HostRows}},
		{"device_metrics", "SELECT count() FROM device_metrics", []int64{c.DeviceRows}},
	}
	return expected(all, filter)
}

// expected adds the filter and leaves out what was not sent.
func expected(all []want, filter string) []want {
	out := all[:0]
	for _, w := range all {
		if w.numbers[0] == 0 {
			continue
		}
		w.query += filter
		out = append(out, w)
	}
	return out
}

// ask compares one answer.
func (w *want) ask(ctx context.Context, sql SQL) (got []int64, equal bool, err error) {
	got, err = sql.numbers(ctx, w.query)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", w.name, err)
	}
	equal = len(got) == len(w.numbers)
	for i := 0; equal && i < len(got); i++ {
		equal = got[i] == w.numbers[i]
	}
	return got, equal, nil
}

// pollEvery is how often counts are asked for; it bounds the error of the time that is measured. Where an answer takes long, as of many
// sessions among those of others, the pause is pollPause times as long as the answer took, or asking would be a part of the load.
const (
	pollEvery = 100 * time.Millisecond
	pollPause = 4
)

// stuckAfter is how long no count may change before waiting is given up.
const stuckAfter = 2 * time.Minute

// wait returns when every poll answers what was sent. before is what the tables held when the run began, by name.
func wait(ctx context.Context, svc *Service, list []want, before map[string]int64, progress func(seen int64)) error {
	last, changed := map[string]int64{}, time.Now()
	for {
		missing, began := "", time.Now()
		for _, w := range list {
			got, _, err := w.ask(ctx, svc.Read)
			if err != nil {
				return err
			}
			n := got[0] - before[w.name]
			if n > w.numbers[0] {
				return fmt.Errorf("%s counts %d rows and only %d were sent: does something else send to this service?", w.name, n, w.numbers[0])
			}
			if n != last[w.name] {
				last[w.name], changed = n, time.Now()
			}
			if w.name == "kernels" {
				progress(n)
			}
			if n < w.numbers[0] {
				missing = fmt.Sprintf("%s counts %d of %d", w.name, n, w.numbers[0])
				break // the rest cannot end the wait: do not ask
			}
		}
		switch {
		case missing == "":
			return nil
		case time.Since(changed) > stuckAfter:
			return fmt.Errorf("%s and nothing has changed for %v; the service's last words:\n%s", missing, stuckAfter, svc.lastWords())
		}
		if err := svc.Died(); err != nil {
			return err
		}
		if err := pause(ctx, max(pollEvery, pollPause*time.Since(began))); err != nil {
			return err
		}
	}
}

// baseline answers what the polled tables hold before the run.
func baseline(ctx context.Context, svc *Service, list []want) (map[string]int64, error) {
	out := map[string]int64{}
	for _, w := range list {
		got, _, err := w.ask(ctx, svc.Read)
		if err != nil {
			return nil, err
		}
		out[w.name] = got[0]
	}
	return out, nil
}
