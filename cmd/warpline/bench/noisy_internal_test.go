package bench

import "testing"

// After a flood the books have to hold; that it cut the replay window is no fault in them.
func TestWindowsAlone(t *testing.T) {
	const head = "warpline audit: exit status 5: note: x\nwarpline: the books do not balance (when busy, try again):\n"
	for said, want := range map[string]bool{
		head + "  replay window: ROWS has 1h; raise --rows-max":                       true,
		head + "  replay window: ROWS has 1h; x\n  replay window: INGEST has 1h; x\n": true,
		head + "  replay window: ROWS has 1h; x\n  table kernels_data: 5 rows fewer":  false,
		head + "  tenant red, table kernels_data: 1 row fewer; replay window: no":     false,
		head: false,
		"warpline audit: exit status 1: replay window: ROWS":                                       false,
		"warpline audit: the books do not balance":                                                 false,
		"warpline audit: exit status 1: no connection\n  replay window: ROWS has 1h; and no books": false,
	} {
		if windowsAlone(said) != want {
			t.Errorf("%q: want %v", said, want)
		}
	}
}
