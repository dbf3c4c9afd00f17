package parca

import "testing"

// Rows whose times are not within the tenant's limits are counted with the refused ones, by type; the others of the batch are stored.
func TestTimesOfRowsBeyondTheLimits(t *testing.T) {
	o := newOwner(t)
	const hour = int64(3600e9)
	b := newBuilder("n", "1", "train").refuse(reasonNotGPU, "samples", 2).kernel(noon-2*hour, "gemm", 5, 0).kernel(noon, "gemm", 5, 0)
	for _, at := range []int64{noon - hour - 1, noon - hour, noon, noon + 60e9, noon + 60e9 + 1, 0} {
		b.pc(at, "gemm", 16, "stall", 3, 0, 0)
	}
	in := message("s", "one", 0, noon, &b.Part)
	in.env.PastNS, in.env.FutureNS = hour, 60e9
	o.take(in)
	o.publish()
	o.settle()
	if n := o.sum("pc_buckets_data", "hits"); n != 3 {
		t.Errorf("%d rows of samples are stored, want 3", n)
	}
	if n := len(o.rows["kernels_data"]); n != 1 {
		t.Errorf("%d kernels are stored, want 1", n)
	}
	got := map[string]uint64{}
	for _, r := range o.rows["rejects_data"] {
		got[r["reason"].(string)+" "+r["type"].(string)] += r["events"].(uint64)
	}
	for what, n := range map[string]uint64{"not_gpu samples": 2, "too_old gpu_pcsample": 2, "too_old gpu_kernel_time": 1,
		"in_future gpu_pcsample": 1} {
		if got[what] != n {
			t.Errorf("%s: %d, want %d", what, got[what], n)
		}
	}
	if o.sum("usage_data", "rejected") != 6 {
		t.Errorf("%d are refused in usage", o.sum("usage_data", "rejected"))
	}
	b.PC, b.Kernels = b.PC[:0], b.Kernels[:0]
	b.pc(noon-2*hour, "gemm", 16, "stall", 3, 0, 0)
	in = message("other", "two", 0, noon, &b.Part)
	in.env.PastNS = hour
	o.take(in) // none is left
}
