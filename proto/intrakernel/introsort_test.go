package intrakernel_test

import (
	"bytes"
	"cmp"
	"path/filepath"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

// The order of equal items is that of std::sort, GCC 12: the numbers are hashes of where items came from, as a program of C++ printed them
// for the same items.
func TestIntrosortIsTheStandardLibrarys(t *testing.T) {
	type item struct{ key, at uint32 }
	for n, want := range map[int]uint64{
		2:      0x6fd0bc2c11a73dfb,
		16:     0xa0ef19d7baf92cc9,
		17:     0x6c87865e3397b967,
		18:     0xb203ca4b75f2a4cd,
		100:    0x55f99dc6f30da003,
		1000:   0x9c30c8b361c40a63,
		5000:   0x1918c115ac2e2e73,
		100000: 0x12611c9c94efa8e5,
	} {
		hash := uint64(14695981039346656037)
		for pattern := range 5 {
			for _, kinds := range []int{1, 2, 7, 1000} {
				items := make([]item, n)
				random := uint64(88172645463325252)
				for i := range items {
					random ^= random << 13
					random ^= random >> 7
					random ^= random << 17
					key := 0
					switch pattern {
					case 0:
						key = int(random % uint64(kinds))
					case 1: // sorted
						key = i * kinds / n
					case 2: // the other way round
						key = (n - 1 - i) * kinds / n
					case 3: // up and down
						key = min(i, n-i) * kinds / n
					case 4: // the worst for medians of three: the heap has to help
						if key = n/2 + i; i >= n/2 {
							key = 2 * (i - n/2 + 1)
						} else if i%2 == 0 {
							key = i + 1
						}
						key /= kinds
					}
					items[i] = item{uint32(key), uint32(i)}
				}
				intrakernel.Introsort(items, func(a, b *item) int { return cmp.Compare(a.key, b.key) })
				for i := range items {
					if i > 0 && items[i].key < items[i-1].key {
						t.Fatalf("%d items, pattern %d, %d kinds: not sorted at %d", n, pattern, kinds, i)
					}
					hash = (hash ^ uint64(items[i].at)) * 1099511628211
				}
			}
		}
		if hash != want {
			t.Errorf("%d items: another order, %#016x", n, hash)
		}
	}
	intrakernel.Introsort([]item(nil), nil)
}

// Where instants and slices of 0 ns, ends and types that the device does not write, or two SMs of a block come together, the trace has them
// in the peer's order: a program that does what it does with std::sort wrote these, and writes every file of the vectors.
func TestEqualEventsAreInThePeersOrder(t *testing.T) {
	for _, name := range []string{"sm", "block", "legacy", "legacy_block"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", "ties", name)
			h, err := intrakernel.ParseHeader(readFile(t, filepath.Join(dir, "input.json")))
			if err != nil {
				t.Fatal(err)
			}
			c, err := intrakernel.Collect(bytes.NewReader(readFile(t, filepath.Join(dir, "events.bin"))),
				bytes.NewReader(readFile(t, filepath.Join(dir, "counters.bin"))), h)
			if err != nil {
				t.Fatal(err)
			}
			line, err := c.Timeline(h)
			if err != nil {
				t.Fatal(err)
			}
			got := writeAll(t, line, h, true)["trace.json"]
			want := string(readFile(t, filepath.Join(dir, "out", "trace.json")))
			compare(t, map[string]string{"trace.json": got}, map[string]string{"trace.json": want})
		})
	}
}
