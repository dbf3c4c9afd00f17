package table

import (
	"fmt"
	"strings"

	"github.com/warpline/warpline/proto/gpuflight"
)

// copyKindSQL is what a copy's code means to the vendor of its session, for rows that were written before the vendor was known.
func copyKindSQL(vendor, code string) string {
	of := func(vendor string) string {
		var codes, kinds []string
		for c := uint32(1); ; c++ {
			kind := gpuflight.CopyKind(vendor, c)
			if strings.HasPrefix(kind, "kind_") {
				break
			}
			codes, kinds = append(codes, fmt.Sprint(c)), append(kinds, quote(kind))
		}
		return fmt.Sprintf("transform(%[1]s, [%[2]s], [%[3]s], concat('kind_', toString(%[1]s)))", code, strings.Join(codes, ", "), strings.Join(kinds, ", "))
	}
	return fmt.Sprintf("multiIf(upper(%[1]s) = 'AMD', %[2]s, upper(%[1]s) = 'NVIDIA', %[3]s, '')", vendor, of("AMD"), of("NVIDIA"))
}
