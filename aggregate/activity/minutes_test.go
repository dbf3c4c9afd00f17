package activity

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/warpline/warpline/sink/table"
)

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		v      float64
		key    int16
		digits uint64
	}{
		{0, 0, 0}, {7, 0, 7}, {999_999_999, 0, 999_999_999}, {1e9, 1, 100_000_000}, {12.3457, -7, 123_457_000}, {-12.3457, -7 +
			table.NegativePart, 123_457_000},
		{0.1, -9, 100_000_000}, {1e300, 292, 100_000_000}, {math.SmallestNonzeroFloat64, -332, 494_065_646}, {-5, table.NegativePart, 5},
		{1.0000000004, -8, 100_000_000},
	} {
		if key, digits := decimal(c.v); key != c.key || digits != c.digits {
			t.Errorf("%v is %d at %d, want %d at %d", c.v, digits, key, c.digits, c.key)
		}
	}
}

// Whatever the order and however they are split, the parts of a sum are the same, and add up to what the client wrote.
func TestSumsDoNotDependOnOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	r := rand.New(rand.NewPCG(3, 4))
	exact := new(big.Rat)
	var values []float64
	for range 5000 {
		text := fmt.Sprintf("%.6g", (r.Float64()-0.2)*math.Pow(10, float64(r.IntN(30)-12)))
		var v float64
		fmt.Sscan(text, &v)
		d, _ := new(big.Rat).SetString(text)
		exact.Add(exact, d)
		values = append(values, v)
	}
	var first PMAcc
	for round := range 4 {
		a := PMAcc{low: math.Inf(1), high: math.Inf(-1)}
		for _, v := range values {
			a.Add(v)
		}
		sum := new(big.Rat)
		for _, p := range a.parts {
			power, digits := int64(p.key), new(big.Rat).SetInt(new(big.Int).SetUint64(p.digits))
			if power >= 1000 {
				power -= table.NegativePart
				digits.Neg(digits)
			}
			ten := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(power, -power)), nil))
			if power < 0 {
				ten.Inv(ten)
			}
			sum.Add(sum, digits.Mul(digits, ten))
		}
		if sum.Cmp(exact) != 0 {
			t.Fatalf("the parts add up to %s, want %s", sum.FloatString(9), exact.FloatString(9))
		}
		if round == 0 {
			first = a
		} else if !reflect.DeepEqual(a, first) {
			t.Fatalf("round %d: %+v, want %+v", round, a, first)
		}
		r.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	}
}
