package activity

import "testing"

// Accumulators that nobody needed for a while are freed; those that are needed stay.
func TestPoolGivesBackWhatIsNotNeeded(t *testing.T) {
	p := &KernelPool{}
	give := func(n int) {
		for range n {
			p.free = append(p.free, &kernelAcc{})
		}
	}
	take := func(n int) {
		for range n {
			p.free = p.free[:len(p.free)-1]
			p.least = min(p.least, len(p.free))
		}
	}
	give(1000)
	p.Trim(trimEvery) // the first look
	if len(p.free) != 1000 {
		t.Fatalf("%d are left of those that came since the last look", len(p.free))
	}
	take(100)
	give(100)
	p.Trim(trimEvery + 1)
	if len(p.free) != 1000 {
		t.Errorf("%d are left at once", len(p.free))
	}
	p.Trim(2 * trimEvery)
	if len(p.free) != 100 {
		t.Errorf("%d are left, 100 were needed", len(p.free))
	}
	p.Trim(3 * trimEvery)
	if len(p.free) != 0 {
		t.Errorf("%d are left, none was needed", len(p.free))
	}
}
