package gpuflight

import "github.com/warpline/warpline/proto/jsonscan"

// ExtraColumns returns the columns of a decoded batch that this package does not know, maxExtras at most, with the cells of the accepted
// rows. It walks the line again and allocates: call it only when Batch.UnknownColumns says that there is something to find.
func ExtraColumns(line *Line) []Extra {
	if line.Batch == nil || line.Batch.UnknownColumns == 0 {
		return nil
	}
	columnsAt, rowsAt := -1, -1
	for m := walkObject(line.Raw, 0); m.next(); {
		switch {
		case columnsAt < 0 && string(m.key) == "columns":
			columnsAt = m.i
		case rowsAt < 0 && string(m.key) == "rows":
			rowsAt = m.i
		}
		if !m.skip() {
			return nil
		}
	}
	if columnsAt < 0 || rowsAt < 0 {
		return nil
	}
	b := line.Raw
	var at [maxColumns]int // wire column → its place in extras, from 1
	var extras []Extra
	eachElement(b, columnsAt, func(n, start, end int) bool {
		if b[start] != '"' {
			return false
		}
		name := cleanText(b[start+1:end-1], true, nil)
		if ColumnOf(line.Type, string(name)) < 0 && len(extras) < maxExtras {
			extras = append(extras, Extra{Name: name, Value: []byte{'['}})
			at[n] = len(extras)
		}
		return true
	})
	bad := line.Batch.BadRows
	eachElement(b, rowsAt, func(n, start, _ int) bool {
		for len(bad) > 0 && n >= bad[0].Row+bad[0].Count {
			bad = bad[1:]
		}
		if len(bad) > 0 && n >= bad[0].Row {
			return true
		}
		eachElement(b, start, func(cell, from, to int) bool {
			if i := at[cell]; i > 0 {
				e := &extras[i-1]
				e.Rows++
				if e.Rows > 1 {
					e.Value = append(e.Value, ',')
				}
				e.Value = append(e.Value, b[from:to]...)
			}
			return true
		})
		return true
	})
	for i := range extras {
		extras[i].Value = append(extras[i].Value, ']')
	}
	return extras
}

// eachElement calls f for each element of the array that opens at b[i], until f returns false or the array ends.
func eachElement(b []byte, i int, f func(n, start, end int) bool) {
	i = jsonscan.Space(b, i+1)
	for n := 0; i < len(b) && b[i] != ']'; n++ {
		end, ok := skipValue(b, i)
		if !ok || !f(n, i, end) {
			return
		}
		i = jsonscan.Space(b, end)
		if i < len(b) && b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
}
