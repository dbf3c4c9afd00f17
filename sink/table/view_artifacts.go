package table

import (
	"fmt"
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
		"rules":        insightRules,
		"percent":      percentSQL,
		"kernelname":   kernelNameSQL,
		"functionname": functionNameSQL,
		"callsite":     callSiteSQL,
	}
}

// sourcesSQL is the source files of sessions: one content for each file id, the one that came last, with the path where it is known.
func sourcesSQL(o Options) string {
	return fmt.Sprintf(`(
    SELECT f.tenant AS tenant, f.session_id AS session_id, f.source_file_id AS source_file_id, n.value AS path, f.content.1 AS content_hi, f.content.2 AS content_lo
    FROM (
        SELECT tenant, session_id, source_file_id, argMax((content_hi, content_lo), (chunk, content_hi, content_lo)) AS content
        FROM %[1]s.session_sources_data GROUP BY tenant, session_id, source_file_id
    ) AS f
    ANY LEFT JOIN (SELECT tenant, session_id, id, value FROM %[1]s.dictionaries WHERE dict = 'source_file_dict') AS n
        ON f.tenant = n.tenant AND f.session_id = n.session_id AND f.source_file_id = n.id
)`, ident(o.database()))
}

// symbolsSQL is the mangled names of functions, by their ids in function_dict. Its columns are named unlike any other's, as are codeSQL's,
// so that the query that they are joined to keeps the names of its own.
func symbolsSQL(o Options) string {
	return fmt.Sprintf("(SELECT tenant AS symbol_tenant, session_id AS symbol_session, id AS symbol_id, value AS symbol_name FROM %s.dictionaries WHERE dict = 'func_symbol_dict')", ident(o.database()))
}

// codeSQL is the instructions that a session has for a function's name, mangled or not: there are sessions whose func_symbol_dict has
// demangled names. Names are cut at 255 bytes where samples are taken and whole in disassemblies, so they are compared that far. The
// mangled name counts before the other; of several cubins that have it the one with the smallest crc, so that the answer does not change
// from query to query; contents says how many different ones there are.
func codeSQL(o Options) string {
	return fmt.Sprintf(`(
    SELECT
        u.tenant AS code_tenant, u.session_id AS code_session, substring(names.1, 1, 255) AS code_name, uniqExact(u.content_hi, u.content_lo) AS contents,
        argMin((u.content_hi, u.content_lo), (names.2, u.cubin_crc, u.function_name, u.content_hi, u.content_lo)) AS content
    FROM %s.session_functions_data AS u
    ARRAY JOIN if(u.demangled = '', [(u.function_name, 0)], [(u.function_name, 0), (u.demangled, 1)]) AS names
    WHERE u.kind = 'sass' AND names.1 != ''
    GROUP BY code_tenant, code_session, code_name
)`, ident(o.database()))
}

// functionsSQL is the functions of sessions that have an artifact of a kind, each once, with the demangled name where it is known.
func functionsSQL(o Options, kind string) string {
	return fmt.Sprintf(`(
    SELECT
        u.tenant AS tenant, u.session_id AS session_id, u.cubin_crc AS cubin_crc, u.function_name AS function_name, u.arch AS arch,
        u.content_hi AS content_hi, u.content_lo AS content_lo, if(n.function = '', u.demangled, n.function) AS function
    FROM (
        SELECT
            d.tenant AS tenant, d.session_id AS session_id, d.cubin_crc AS cubin_crc, d.function_name AS function_name, d.arch AS arch, max(d.demangled) AS demangled,
            argMin(d.content_hi, (d.content_hi, d.content_lo)) AS content_hi, argMin(d.content_lo, (d.content_hi, d.content_lo)) AS content_lo
        FROM %[1]s.session_functions_data AS d WHERE d.kind = %[2]s GROUP BY tenant, session_id, cubin_crc, function_name, arch
    ) AS u
    ANY LEFT JOIN (
        SELECT y.symbol_tenant AS tenant, y.symbol_session AS session_id, substring(y.symbol_name, 1, 255) AS symbol, %[3]s AS function
        FROM %[4]s AS y
        ANY LEFT JOIN (SELECT tenant, session_id, id, value FROM %[1]s.dictionaries WHERE dict = 'function_dict') AS f
            ON y.symbol_tenant = f.tenant AND y.symbol_session = f.session_id AND y.symbol_id = f.id
    ) AS n
        ON u.tenant = n.tenant AND u.session_id = n.session_id AND substring(u.function_name, 1, 255) = n.symbol
)`, ident(o.database()), quote(kind), functionSQL("f.value"), symbolsSQL(o))
}

// topSQL is the key with the largest value of a map, the first of equal ones, ” of an empty map.
func topSQL(of string) string {
	return fmt.Sprintf("mapKeys(%[1]s)[indexOf(mapValues(%[1]s), arrayMax(mapValues(%[1]s)))]", of)
}

// sharesSQL is each value's part of a map's sum.
func sharesSQL(of string) string {
	return fmt.Sprintf("mapApply((k, v) -> (k, v / greatest(arraySum(mapValues(%[1]s)), 1)), %[1]s)", of)
}

// ratioSQL is a / b, and NULL where either is 0: a counter that was not collected reads 0, and says nothing.
func ratioSQL(a, b string) string {
	return fmt.Sprintf("if((%[1]s) = 0 OR (%[2]s) = 0, NULL, (%[1]s) / (%[2]s))", a, b)
}
