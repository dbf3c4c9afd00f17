package telemetry

import (
	"fmt"
	"strings"

	"github.com/warpline/warpline/sink/table"
)

// collectiveSQL says whether a text names a collective operation, however it is spelled: case, '-' and '_' do not count.
func collectiveSQL(text string) string {
	return fmt.Sprintf("multiSearchAny(replaceAll(replaceAll(lower(%s), '-', ''), '_', ''), "+
		"['nccl', 'collective', 'communication', 'allreduce', 'allgather', 'reducescatter', 'broadcast', 'barrier'])", text)
}

// blanks are what Python's str.strip takes off both ends of a text, as a class of RE2.
const blanks = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+`

// trimmedSQL takes blanks off both ends of a text.
func trimmedSQL(text string) string {
	return fmt.Sprintf("replaceRegexpAll(%s, %s, '')", text, table.Quote("^"+blanks+"|"+blanks+"$"))
}

// rolledSQL is what every rollup of memory adds up of the events e: of equal peaks the first, and each change once, although the sample,
// the peak and the alerts of a step repeat it.
func rolledSQL() string {
	parts := []string{
		"count() AS events, countIf(e.event_type = 'sample') AS samples, min(e.timestamp_ns) AS first_timestamp_ns, " +
			"max(e.timestamp_ns) AS last_timestamp_ns",
		"countIf(e.alert) AS alerts, countIf(e.oom) AS ooms",
		"toInt64(ifNull(sumIf(e.change_bytes, e.event_type = 'allocation'), 0)) AS allocation_bytes, " +
			"-toInt64(ifNull(sumIf(e.change_bytes, e.event_type = 'deallocation'), 0)) AS deallocation_bytes",
	}
	for _, c := range []string{"allocated", "reserved", "used"} {
		parts = append(parts, strings.ReplaceAll("countIf(e.X_bytes IS NOT NULL) AS X_known, countIf(e.X_bytes IS NOT NULL AND "+
			"e.worked) AS X_worked, "+
			"minIf(ifNull(e.X_bytes, 0), e.X_bytes IS NOT NULL AND e.worked) AS X_least, "+
			"argMaxIf((ifNull(e.X_bytes, 0), e.timestamp_ns, e.rank, e.device_id), (ifNull(e.X_bytes, 0), -e.timestamp_ns, "+
			"-toInt64(e.upload_index)), e.X_bytes IS NOT NULL) AS X_peak", "X", c))
	}
	return strings.Join(parts, ",\n        ")
}

// peaksSQL shows what rolledSQL found for each counter; NULL if no event has it.
func peaksSQL() string {
	var parts []string
	for _, c := range []string{"allocated", "reserved", "used"} {
		parts = append(parts, strings.ReplaceAll("if(X_known = 0, NULL, X_peak.1) AS peak_X_bytes, if(X_known = 0, NULL, X_peak.2) AS "+
			"peak_X_timestamp_ns, "+
			"if(X_known = 0, NULL, X_peak.3) AS peak_X_rank, if(X_known = 0, NULL, X_peak.4) AS peak_X_device_id, if(X_worked = 0, "+
			"NULL, X_least) AS least_X_bytes", "X", c))
	}
	return strings.Join(parts, ",\n    ")
}
