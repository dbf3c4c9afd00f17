package table

import (
	"fmt"
	"slices"
	"strings"
	"text/template"
)

// artifactFuncs are what the views of artifacts and insights are written with.
func artifactFuncs(o Options) template.FuncMap {
	return template.FuncMap{
		"sources":      func() string { return sourcesSQL(o) },
		"symbols":      func() string { return symbolsSQL(o) },
		"code":         func() string { return codeSQL(o) },
		"functions":    func(kind string) string { return functionsSQL(o, kind) },
		"top":          topSQL,
		"shares":       sharesSQL,
		"ratio":        ratioSQL,
		"percent":      percentSQL,
		"kernelname":   kernelNameSQL,
		"functionname": functionNameSQL,
		"callsite":     callSiteSQL,
	}
}

// linksSQL is a table of links from sessions to contents (columns names those that the caller needs). It includes what a session did not
// send but another session of the same process did: there lent is 1. A client sends what its program is made of once in a process's life,
// with one of the segments of its run or of the runs that it rolled into, and all of them give their ids the same meaning. IN keeps the
// links of other sessions from being read.
func linksSQL(o Options, links, columns string) string {
	return fmt.Sprintf(`(
    SELECT tenant, session_id, %[3]s, 0 AS lent FROM %[1]s.%[2]s
    UNION ALL
    SELECT g.tenant, g.session_id, %[3]s, 1 AS lent
    FROM %[4]s AS g
    INNER JOIN (SELECT DISTINCT p.tenant AS tenant, p.process AS process, %[3]s FROM %[1]s.%[2]s AS d
        INNER JOIN %[4]s AS p ON d.tenant = p.tenant AND d.session_id = p.session_id
        WHERE (d.tenant, d.session_id) IN (SELECT tenant, session_id FROM %[1]s.segments_data)) AS l
        ON g.tenant = l.tenant AND g.process = l.process
)`, ident(o.database()), links, columns, fmt.Sprintf(`(
        SELECT tenant, session_id, if(chain = '', concat('run ', run), concat('chain ', chain)) AS process
        FROM (SELECT tenant, session_id, max(toString(run_id)) AS run, max(toString(roll_chain_id)) AS chain FROM %s.segments_data
            GROUP BY tenant, session_id)
        WHERE run != '' OR chain != ''
    )`, ident(o.database())))
}

// sourcesSQL is the source files of sessions: one content for each file id, preferably the session's own, otherwise the one that came last,
// with the path if it is known.
func sourcesSQL(o Options) string {
	return fmt.Sprintf(`(
    SELECT f.tenant AS tenant, f.session_id AS session_id, f.source_file_id AS source_file_id, n.value AS path,
        f.content.1 AS content_hi, f.content.2 AS content_lo, f.lent AS lent
    FROM (
        SELECT tenant, session_id, source_file_id, min(d.lent) AS lent,
            argMax((content_hi, content_lo), (-d.lent, chunk, content_hi, content_lo)) AS content
        FROM %[2]s AS d GROUP BY tenant, session_id, source_file_id
    ) AS f
    ANY LEFT JOIN (SELECT tenant, session_id, id, value FROM %[1]s.dictionaries WHERE dict = 'source_file_dict') AS n
        ON f.tenant = n.tenant AND f.session_id = n.session_id AND f.source_file_id = n.id
)`, ident(o.database()), linksSQL(o, "session_sources_data", "source_file_id, content_hi, content_lo, chunk"))
}

// symbolsSQL is the mangled names of functions, by their ids in function_dict. Its columns, like codeSQL's, have names that no other table
// has, so that the query to which they are joined keeps its own names.
func symbolsSQL(o Options) string {
	return fmt.Sprintf("(SELECT tenant AS symbol_tenant, session_id AS symbol_session, id AS symbol_id, value AS symbol_name FROM "+
		"%s.dictionaries WHERE dict = 'func_symbol_dict')", ident(o.database()))
}

// codeSQL is the instructions that a session has for a function's name, mangled or not: there are sessions whose func_symbol_dict has
// demangled names. Names are cut at 255 bytes where samples are taken and whole in disassemblies, so they are compared that far. The
// mangled name has priority over the other, and the session's own code over lent code. If several cubins have the function, the one with
// the smallest crc is taken, so that the answer does not change from query to query; contents says how many different ones there are.
func codeSQL(o Options) string {
	return fmt.Sprintf(`(
    SELECT
        u.tenant AS code_tenant, u.session_id AS code_session, substring(names.1, 1, 255) AS code_name,
        if(min(u.lent) = 0, uniqExactIf((u.content_hi, u.content_lo), u.lent = 0), uniqExact((u.content_hi, u.content_lo))) AS contents,
        argMin((u.content_hi, u.content_lo), (u.lent, names.2, u.cubin_crc, u.function_name, u.content_hi, u.content_lo)) AS content
    FROM %s AS u
    ARRAY JOIN if(u.demangled = '', [(u.function_name, 0)], [(u.function_name, 0), (u.demangled, 1)]) AS names
    WHERE u.kind = 'sass' AND names.1 != ''
    GROUP BY code_tenant, code_session, code_name
)`, linksSQL(o, "session_functions_data", "kind, cubin_crc, function_name, demangled, content_hi, content_lo"))
}

// functionsSQL is the functions of sessions that have an artifact of a kind, each once, with the demangled name where it is known.
func functionsSQL(o Options, kind string) string {
	return fmt.Sprintf(`(
    SELECT
        u.tenant AS tenant, u.session_id AS session_id, u.cubin_crc AS cubin_crc, u.function_name AS function_name, u.arch AS arch,
        u.content_hi AS content_hi, u.content_lo AS content_lo, if(n.function = '', u.demangled, n.function) AS function, u.lent AS lent
    FROM (
        SELECT
            d.tenant AS tenant, d.session_id AS session_id, d.cubin_crc AS cubin_crc, d.function_name AS function_name, d.arch AS arch,
            max(d.demangled) AS demangled, min(d.lent) AS lent,
            argMin(d.content_hi, (d.lent, d.content_hi, d.content_lo)) AS content_hi,
            argMin(d.content_lo, (d.lent, d.content_hi, d.content_lo)) AS content_lo
        FROM %[5]s AS d WHERE d.kind = %[2]s GROUP BY tenant, session_id, cubin_crc, function_name, arch
    ) AS u
    ANY LEFT JOIN (
        SELECT y.symbol_tenant AS tenant, y.symbol_session AS session_id, substring(y.symbol_name, 1, 255) AS symbol, %[3]s AS function
        FROM %[4]s AS y
        ANY LEFT JOIN (SELECT tenant, session_id, id, value FROM %[1]s.dictionaries WHERE dict = 'function_dict') AS f
            ON y.symbol_tenant = f.tenant AND y.symbol_session = f.session_id AND y.symbol_id = f.id
    ) AS n
        ON u.tenant = n.tenant AND u.session_id = n.session_id AND substring(u.function_name, 1, 255) = n.symbol
)`, ident(o.database()), Quote(kind), functionSQL("f.value"), symbolsSQL(o),
		linksSQL(o, "session_functions_data", "kind, cubin_crc, function_name, arch, demangled, content_hi, content_lo"))
}

// topSQL is the key with the largest value in a map, the first of equal ones, ” for an empty map.
func topSQL(of string) string {
	return fmt.Sprintf("mapKeys(%[1]s)[indexOf(mapValues(%[1]s), arrayMax(mapValues(%[1]s)))]", of)
}

// sharesSQL is each value's part of a map's sum.
func sharesSQL(of string) string {
	return fmt.Sprintf("mapApply((k, v) -> (k, v / greatest(arraySum(mapValues(%[1]s)), 1)), %[1]s)", of)
}

// ratioSQL is a / b, and NULL if either is 0: a counter that was not collected reads 0, which has no meaning.
func ratioSQL(a, b string) string {
	return fmt.Sprintf("if((%[1]s) = 0 OR (%[2]s) = 0, NULL, (%[1]s) / (%[2]s))", a, b)
}

// launchRules are the rules that the view insights has from the template launch_rules.
var launchRules = map[string]bool{"insight_occupancy": true, "insight_registers": true, "insight_spill": true}

// insightRules are the views of single rules, which the view insights puts together: every view whose name begins with insight_, but for
// launchRules.
func (s *Schema) insightRules() (rules []string) {
	for i := range s.views {
		if name := s.views[i].Name; strings.HasPrefix(name, "insight_") && !launchRules[name] {
			rules = append(rules, name)
		}
	}
	slices.Sort(rules)
	return rules
}

// percentSQL is a ratio as people read it.
func percentSQL(of string) string {
	return fmt.Sprintf("concat(toString(round(100 * %s, 1)), ' %%')", of)
}

// kernelNameSQL names the kernel of a row that has kernel and id, which is 0 when the name is known.
func kernelNameSQL(row string) string {
	return fmt.Sprintf("if(%[1]s.kernel = '', concat('kernel ', toString(%[1]s.id)), toString(%[1]s.kernel))", row)
}

// functionNameSQL is the same for functions.
func functionNameSQL(row string) string {
	return fmt.Sprintf("if(%[1]s.function = '', concat('function ', toString(%[1]s.id)), toString(%[1]s.function))", row)
}

// callSiteSQL names where a synchronisation was called: its stack, or what it was if there is no stack.
func callSiteSQL(row string) string {
	return fmt.Sprintf("multiIf(%[1]s.stack_trace != '', %[1]s.stack_trace, %[1]s.id != 0, concat(%[1]s.type, ' at call stack ', "+
		"toString(%[1]s.id)), concat(%[1]s.type, ' without a call stack'))", row)
}
