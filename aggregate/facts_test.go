package aggregate_test

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// facts does for tests what the view `kernels` does: it finds what kernels take from launches, names and configurations.
type facts struct {
	launches map[fact]launch
	names    map[fact]string
	scopes   map[fact]string
	kernels  []fact
}

type fact struct {
	session string
	id      uint32
}

type launch struct{ kernel, config, registers uint32 }

func newFacts() *facts {
	return &facts{launches: map[fact]launch{}, names: map[fact]string{}, scopes: map[fact]string{}}
}

// take keeps the rows that matter.
func (f *facts) take(name string, rec arrow.Record) {
	column := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
	number := func(name string, row int) uint32 { return column(name).(*array.Uint32).Value(row) }
	for row := range int(rec.NumRows()) {
		of := func(id string) fact {
			d := column("session_id").(*array.Dictionary)
			return fact{d.Dictionary().ValueStr(d.GetValueIndex(row)), number(id, row)}
		}
		switch name {
		case "kernels_data":
			if rec.Schema().HasField("launch_id") { // the first versions had it all in the row
				f.kernels = append(f.kernels, of("launch_id"))
			}
		case "launches":
			f.launches[of("launch_id")] = launch{number("kernel_id", row), number("config_id", row), number("registers", row)}
		case "launch_configs":
			f.scopes[of("config_id")] = string(column("user_scope").(*array.Binary).Value(row))
		case "dictionaries":
			if d := column("dict").(*array.Dictionary); d.Dictionary().ValueStr(d.GetValueIndex(row)) == "kernel_dict" {
				f.names[of("id")] = string(column("value").(*array.Binary).Value(row))
			}
		}
	}
}

func (f *facts) resolve(t testing.TB, sum totals) {
	t.Helper()
	for _, k := range f.kernels {
		l, ok := f.launches[k]
		if !ok {
			t.Fatalf("a kernel of session %s has launch %d, which no row describes", k.session, k.id)
		}
		sum["kernels_data.kernel="+f.names[fact{k.session, l.kernel}]]++
		sum["kernels_data.scope="+f.scopes[fact{k.session, l.config}]]++
		sum["kernels_data.kernel_id"] += uint64(l.kernel)
		sum["kernels_data.registers"] += uint64(l.registers)
	}
}
