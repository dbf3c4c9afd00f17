package telemetry

import (
	"math"
	"math/big"
	"strconv"
)

// integer is the value of an integer field: v, or wide if it does not fit in 64 bits.
type integer struct {
	v    int64
	wide *big.Int
	kind kind // kInt if it is one; else what stands there instead
}

func small(v int64) integer { return integer{v: v, kind: kInt} }

// integerOf reads an integer token; any other token keeps its kind.
func integerOf(b []byte, k kind) integer {
	if k != kInt {
		return integer{kind: k}
	}
	i, negative := 0, false
	if b[0] == '-' {
		i, negative = 1, true
	}
	if len(b)-i > 18 {
		return wideInteger(b)
	}
	var v int64
	for ; i < len(b); i++ {
		v = v*10 + int64(b[i]-'0')
	}
	if negative {
		v = -v
	}
	return integer{v: v, kind: kInt}
}

func wideInteger(b []byte) integer {
	if v, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return small(v)
	}
	w, _ := new(big.Int).SetString(string(b), 10)
	return fitted(w)
}

func fitted(w *big.Int) integer {
	if w.IsInt64() {
		return small(w.Int64())
	}
	return integer{wide: w, kind: kInt}
}

func (a integer) big() *big.Int {
	if a.wide != nil {
		return a.wide
	}
	return big.NewInt(a.v)
}

// below tells whether a < least.
func (a integer) below(least int64) bool {
	if a.wide != nil {
		return a.wide.Sign() < 0
	}
	return a.v < least
}

// above tells whether a > b.
func (a integer) above(b integer) bool {
	if a.wide != nil || b.wide != nil {
		return a.big().Cmp(b.big()) > 0
	}
	return a.v > b.v
}

// left is what is left of total behind used, at least 0.
func left(total, used integer) integer {
	w := new(big.Int).Sub(total.big(), used.big())
	if w.Sign() < 0 {
		return small(0)
	}
	return fitted(w)
}

// scaled is trunc(double(x) * factor) of a number token, as Python computes it: with the sentences of its exceptions.
func scaled(b []byte, k kind, factor float64, f field) (integer, *Refusal) {
	var x float64
	switch string(b) {
	case "NaN":
		x = math.NaN()
	case "Infinity":
		x = math.Inf(1)
	case "-Infinity":
		x = math.Inf(-1)
	default:
		x, _ = strconv.ParseFloat(string(b), 64) // too large gives an infinity, as in Python
		if k == kInt && math.IsInf(x, 0) {
			return integer{}, &Refusal{NotFinite, names[f], "int too large to convert to float"}
		}
	}
	x *= factor
	switch {
	case math.IsNaN(x):
		return integer{}, &Refusal{NotFinite, names[f], "cannot convert float NaN to integer"}
	case math.IsInf(x, 0):
		return integer{}, &Refusal{NotFinite, names[f], "cannot convert float infinity to integer"}
	case math.Abs(x) < 1<<63:
		return small(int64(x)), nil
	}
	w, _ := big.NewFloat(x).Int(nil)
	return fitted(w), nil
}

func tooManyDigits(n int) string {
	return "Exceeds the limit (" + strconv.Itoa(MaxDigits) + " digits) for integer string conversion: value has " + strconv.Itoa(n) +
		" digits; use sys.set_int_max_str_digits() to increase the limit"
}
