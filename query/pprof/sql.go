package pprof

import "fmt"

// Both queries give the same columns, ordered by place; of one place first the rows that say how much there is, then how much of it each
// launch stack led to. Sessions that do not send stacks, and samples whose launch is not known, have the former alone.

func samplesSQL(q Query) (string, []any) {
	const stall = "reason_kind = 'stall'"
	all, args := q.Of(q.Database, "pc_lines", stall)
	stacks, more := q.Of(q.Database, "pc_stack_lines", stall, "notEmpty(frames)")
	const place = "toString(tenant) AS who, toString(build_id) AS build, toString(cubin) AS crc, toString(function) AS f, pc_offset AS at, " +
		"toString(sass) AS code, toString(stall_reason) AS why"
	return fmt.Sprintf(`SELECT who, build, crc, f, at, code, why, path, number, chain, name, stack, has_stack, n, ns, first, last
		FROM (
			SELECT %[1]s, toString(file) AS path, line AS number, inline_chain AS chain, max(demangled) AS name, emptyArrayString() AS stack,
				toUInt8(0) AS has_stack, sum(samples) AS n, sum(gpu_ns) AS ns, %[2]s
			FROM %[3]s GROUP BY who, build, crc, f, at, code, why, path, number, chain HAVING n > 0
			UNION ALL
			SELECT %[1]s, '' AS path, toUInt32(0) AS number, emptyArrayString() AS chain, '' AS name, frames AS stack,
				toUInt8(1) AS has_stack, sum(samples) AS n, sum(gpu_ns) AS ns, %[2]s
			FROM %[4]s GROUP BY who, build, crc, f, at, code, why, stack HAVING n > 0)
		ORDER BY who, build, crc, f, at, code, why, has_stack, path, number, chain, stack`, place, spanSQL, all, stacks), append(args, more...)
}

func kernelsSQL(q Query) (string, []any) {
	all, args := q.OfKernels(q.Database, "kernel_sums")
	stacks, more := q.OfKernels(q.Database, "kernel_stacks", "notEmpty(frames)")
	const place = "toString(tenant) AS who"
	return fmt.Sprintf(`SELECT who, '' AS build, '' AS crc, f, toUInt64(0) AS at, '' AS code, '' AS why, '' AS path, toUInt32(0) AS number,
			emptyArrayString() AS chain, '' AS name, stack, has_stack, n, ns, first, last
		FROM (
			SELECT %[1]s, toString(kernel) AS f, emptyArrayString() AS stack, toUInt8(0) AS has_stack, sum(calls) AS n, sum(total_ns) AS ns,
				%[2]s
			FROM %[3]s GROUP BY who, f HAVING n > 0
			UNION ALL
			SELECT %[1]s, toString(function) AS f, frames AS stack, toUInt8(1) AS has_stack, sum(calls) AS n, sum(kernel_ns) AS ns, %[2]s
			FROM %[4]s GROUP BY who, f, stack HAVING n > 0)
		ORDER BY who, f, has_stack, stack`, place, spanSQL, all, stacks), append(args, more...)
}

// spanSQL is the time that rows are of, seconds since the epoch.
const spanSQL = "toInt64(toUnixTimestamp(min(bucket))) AS first, toInt64(toUnixTimestamp(max(bucket + toIntervalSecond(bucket_s)))) AS last"
