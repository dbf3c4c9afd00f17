package hist

import (
	"fmt"
	"math"
	"strconv"
)

// IndexSQL returns a ClickHouse expression of type Int16 that is the bucket of value, an expression of type UInt64, as Index says it.
//
// A logarithm, taken a little too small, finds the bucket or the one below it; the exact bound between the two decides. So the last
// digit of a logarithm does not matter.
func IndexSQL(value string) string {
	guess := fmt.Sprintf("toInt32(least(greatest(floor(log(greatest(%s, 1)) * %s - 1e-6), 0), %d))",
		value, strconv.FormatFloat(1/math.Log(Gamma), 'g', -1, 64), Last)
	list := []byte{'['}
	for i := range int(Last) + 1 {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, bounds[i], 10)
	}
	list = append(list, ']')
	// The arrays of SQL count from 1, so element g+2 is where the bucket above g begins.
	return fmt.Sprintf("if(%[1]s = 0, toInt16(%[4]d), arrayMap(g -> toInt16(g + (g < %[5]d AND %[1]s >= %[3]s[g + 2])), [%[2]s])[1])",
		value, guess, list, Zero, Last)
}
