package gpuflight

import (
	"strings"
	"testing"
)

func TestDemangle(t *testing.T) {
	long := "_Z" + "4000" + strings.Repeat("n", 4000) + "i"
	for name, want := range map[string]string{
		"_Z9vecMulAddPKfS0_Pfi":              "vecMulAdd(float const*, float const*, float*, int)",
		"_Z11blockReduceIfLi256EEvPKT_PS0_i": "void blockReduce<float, 256>(float const*, float*, int)",
		"_ZN7cutlass6KernelINS_4gemm6kernel4GemmILb1ELb0EEEEEvNT_6ParamsE": "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<true, false> " +
			">(cutlass::gemm::kernel::Gemm<true, false>::Params)",
		// __cxa_demangle knows no Rust
		"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE": "core::fmt::Write::write_fmt::h0123456789abcdef",
		"":          "",
		"main":      "",
		"_Z":        "",
		"_Z1":       "",
		"_RNvC1a1b": "",
		long:        strings.Repeat("n", 4000) + "(int)",
		strings.Replace(long, "4000n", "4094"+strings.Repeat("n", 95), 1): "", // beyond maxMangledBytes
	} {
		if got := new(partArtifacts).demangle(name); got != want {
			t.Errorf("%.80q is %.200q, want %.200q", name, got, want)
		}
	}
	// Every argument is two of the one before it: in 2 KiB this says more than all memory holds.
	var huge strings.Builder
	huge.WriteString("_Z1f1a1AIS_S_ES0_IS1_S1_E")
	for _, c := range "23456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		huge.WriteString("S0_IS" + string(c) + "_S" + string(c) + "_E")
	}
	if got := new(partArtifacts).demangle(huge.String()); len(got) == 0 || len(got) > 1<<demangledBits {
		t.Errorf("%d bytes", len(got))
	}
}

// What a part may have demangled is bounded, and the names beyond it are left as they are.
func TestDemanglingIsBounded(t *testing.T) {
	a := partArtifacts{demangling: maxPartDemangling - 49}
	for _, step := range []struct{ name, want string }{{"_Z1fii", "f(int, int)"}, {"_Z1f", "f"}, {"_Z1fi", ""}} { // 36, 16 and 25 of it
		if step.name == "_Z1f" {
			a.demangling = maxPartDemangling - 16
		}
		if got := a.demangle(step.name); got != step.want {
			t.Errorf("%s is %q, want %q", step.name, got, step.want)
		}
	}
	if a.demangling != maxPartDemangling {
		t.Errorf("%d of %d used", a.demangling, maxPartDemangling)
	}
}

// Names are what anybody sends.
func FuzzDemangle(f *testing.F) {
	for _, name := range []string{"_Z9vecMulAddPKfS0_Pfi", "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayI" +
		"PcLm1EEEEviT0_T1_", "_Z1fIJ1a1AIS0_S0_EEEvDpT_", "_ZZ1fvENKUlvE_clEv"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got := new(partArtifacts).demangle(name); len(got) > 3<<demangledBits || strings.ToValidUTF8(got, "") != got {
			t.Errorf("%d bytes: %.100q", len(got), got)
		}
	})
}
