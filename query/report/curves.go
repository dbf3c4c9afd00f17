package report

import (
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// curvePoints is how many points a curve has at most.
const curvePoints = 32

// maxCurves bounds the devices and hosts that are read: a fleet does not fit on a page.
const maxCurves = 16

// curves is the SQL that gives, for each group, the number of points, the time from first to last, and for each metric its means
// over equal slices of time, its least, largest and mean value. A slice without points has none.
func (in *reader) curves(view, group string, metrics []string) (string, []any) {
	from, args := in.from(view)
	var cols []string
	for i := range metrics {
		m := fmt.Sprintf("m%d", i)
		cols = append(cols, fmt.Sprintf("arrayMap(x -> x.2, arraySort(groupArray((slice, %[1]s_avg)))), min(%[1]s_min), max(%[1]s_max), "+
			"sum(%[1]s_sum) / sum(points)", m))
	}
	var inner, outer, names []string
	for i, m := range metrics {
		names = append(names, fmt.Sprintf("m%d", i))
		inner = append(inner, fmt.Sprintf("toFloat64(%s) AS m%d", m, i))
		outer = append(outer, fmt.Sprintf("avg(m%[1]d) AS m%[1]d_avg, min(m%[1]d) AS m%[1]d_min, max(m%[1]d) AS m%[1]d_max, sum(m%[1]d) AS "+
			"m%[1]d_sum", i))
	}
	keys := "toString(session_id) AS s, " + group + " AS g"
	return fmt.Sprintf(`SELECT s, g, sum(points), toUInt64(max(latest) - min(earliest)), %s FROM (
		SELECT s, g, slice, count() AS points, min(t) AS earliest, max(t) AS latest, %s FROM (
			SELECT s, g, t, least(toUInt64(%d), intDiv((t - t0) * %d, greatest(t1 - t0, 1))) AS slice, %s FROM (
				SELECT %s, toUnixTimestamp64Nano(at) AS t, min(t) OVER (PARTITION BY s, g) AS t0, max(t) OVER (PARTITION BY s, g) AS t1, %s FROM %s))
		GROUP BY s, g, slice)
	GROUP BY s, g ORDER BY sum(points) DESC, s, g LIMIT %d`, strings.Join(cols, ", "), strings.Join(outer, ", "), curvePoints-1, curvePoints,
		strings.Join(names, ", "), keys, strings.Join(inner, ", "), from, maxCurves), args
}

func (c *Curve) into() []any { return []any{&c.Values, &c.Min, &c.Max, &c.Mean} }

func readDevices(in *reader, r *Report) error {
	sql, args := in.curves("device_metrics", "device_id", []string{"gpu_util_pct", "power_w", "used_bytes", "temp_c", "total_bytes"})
	if err := in.each(sql, args, func(rows driver.Rows) error {
		var d Device
		var total Curve
		into := []any{&d.Session, &d.ID, &d.Points, &d.Duration}
		for _, c := range []*Curve{&d.Util, &d.Power, &d.Used, &d.Temp, &total} {
			into = append(into, c.into()...)
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		d.Total = total.Max
		r.Devices = append(r.Devices, d)
		return nil
	}); err != nil {
		return err
	}
	from, args := in.from("devices")
	return in.each("SELECT toString(session_id), device_id, toString(any(name)) FROM "+from+" GROUP BY session_id, device_id", args,
		func(rows driver.Rows) error {
			var session, name string
			var id int32
			if err := rows.Scan(&session, &id, &name); err != nil {
				return err
			}
			for i := range r.Devices {
				if r.Devices[i].Session == session && r.Devices[i].ID == id {
					r.Devices[i].Name = name
				}
			}
			return nil
		})
}

func readHosts(in *reader, r *Report) error {
	sql, args := in.curves("host_metrics", "toString(hostname)", []string{"cpu_pct", "ram_used_bytes", "ram_total_bytes"})
	return in.each(sql, args, func(rows driver.Rows) error {
		var h Host
		var total Curve
		var duration uint64
		into := append([]any{&h.Session, &h.Hostname, &h.Points, &duration}, h.CPU.into()...)
		into = append(append(into, h.RAM.into()...), total.into()...)
		if err := rows.Scan(into...); err != nil {
			return err
		}
		h.Total = total.Max
		r.Hosts = append(r.Hosts, h)
		return nil
	})
}
