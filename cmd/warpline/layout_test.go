package main

import "testing"

// What nobody says is the process's to choose, and there are never more lanes than partitions.
func TestLanesOfALayout(t *testing.T) {
	for _, c := range []struct{ partitions, flag, own, want int }{
		{16, 0, 0, 2}, {16, 0, 1, 1}, {16, 4, 1, 4}, {1, 0, 2, 1}, {1, 0, 0, 1},
	} {
		f := layoutFlags{Partitions: c.partitions, Lanes: c.flag, Replicas: 1, IngestMax: 1 << 30, RowsMax: 1 << 30, BucketMax: 1 << 30}
		if err := f.check(nil); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if got := f.layout(c.own).Lanes; got != c.want {
			t.Errorf("%+v: %d lanes", c, got)
		}
	}
}
