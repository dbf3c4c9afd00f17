package parca

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Names are demangled as libstdc++ spells them; what is no mangled name, is too long or would expand without end has no readable form, and
// a part of hostile names costs little.
func TestDemangledNames(t *testing.T) {
	var d demangler
	for name, want := range map[string]string{
		"_Z10hash_churnPjiy": "hash_churn(unsigned int*, int, unsigned long long)", "main": "", "": "", "_Z": "", "_Zxx": "",
		"_Z4gemm" + strings.Repeat("i", 2000): "",
	} {
		for range 2 {
			if have := d.of(name); have != want {
				t.Errorf("%.40s is %q, want %q", name, have, want)
			}
		}
	}
	began := time.Now()
	bomb := "_Z1f" + strings.Repeat("1AI", 100) + "i" + strings.Repeat("E", 100)
	for i := range 5000 {
		if s := d.of(fmt.Sprint(bomb, strings.Repeat("S_", 300), i)); len(s) > 1<<demangledBits {
			t.Fatalf("a name of %d bytes", len(s))
		}
	}
	if d.work < maxPartDemangling || d.bytes > maxDemangledBytes || time.Since(began) > 10*time.Second {
		t.Errorf("%v, %d bytes, %d of work", time.Since(began), d.bytes, d.work)
	}
	d.work = 0
	if d.of("_Z3fooi") != "foo(int)" {
		t.Error("the next part has nothing left")
	}
}
