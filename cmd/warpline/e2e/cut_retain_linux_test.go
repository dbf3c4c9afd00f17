package e2e_test

import (
	"flag"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"
)

var retainCuts = flag.Int("retain-cuts", 0, "how many power cuts TestPowerCutWhileRetaining makes in each mode; each takes some 4 minutes")

// The power is cut, or the process killed with -9, while the rows of a tenant are being given another retention class, some seconds after
// the first of them were. The service finishes what was half moved at the next start: every row is there once, in rollups too, the books
// balance, and in the end all rows have the new class and none the old one.
// go test ./cmd/warpline/e2e -run PowerCutWhileRetaining -retain-cuts 2 -timeout 90m
func TestPowerCutWhileRetaining(t *testing.T) {
	if *retainCuts == 0 {
		t.Skip("rows are moved three minutes after a start at the earliest: give -retain-cuts")
	}
	for _, mode := range []string{"fsync", "os"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			t.Logf("-cut-seed %d", *cutSeed)
			r := rand.New(rand.NewPCG(*cutSeed, 5))
			b := &cutService{t: t, disk: newDisk(t, 4<<30), mode: mode, more: []string{"--retention-class", "long=30d/800d"}}
			b.start()
			l := &cutLoad{t: t, addr: b.listen}
			stop := l.run()
			time.Sleep(8 * time.Second)
			stop()
			l.again() // what was not answered
			if lost := b.compare(l, "before"); len(lost) > 0 {
				t.Fatalf("before: %d uploads are not there", len(lost))
			}
			time.Sleep(mayLose) // what is older than that no cut takes, in either mode
			for n := range *retainCuts {
				b.retain("--no-wait")
				before := b.moved()
				for began := time.Now(); b.moved() <= before; time.Sleep(20 * time.Millisecond) {
					if time.Since(began) > 10*time.Minute {
						t.Fatalf("cut %d: nothing more than %d rows was moved in 10 minutes", n+1, before)
					}
				}
				time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
				if n%3 == 2 {
					b.kill()
				} else {
					b.disk.cut()
					b.kill()
					b.disk.replay()
				}
				b.start()
				if lost := b.compare(l, "after a cut"); len(lost) > 0 {
					t.Errorf("cut %d: %d uploads are not there, the first is %s", n+1, len(lost), lost[0])
				}
				t.Logf("cut %d: %d rows were moved before, %d are now", n+1, before, b.moved())
				b.audit(false)
				if t.Failed() {
					return
				}
			}
			b.retain()
			if lost := b.compare(l, "in the end"); len(lost) > 0 {
				t.Errorf("in the end: %d uploads are not there, the first is %s", len(lost), lost[0])
			}
			for table, days := range map[string]string{"kernels_data": "30", "kernel_stats_data": "800", "launches": "800"} {
				rows, err := b.tsv("SELECT arrayStringConcat(arraySort(groupUniqArray(toString(retention_days))), ',') FROM warpline." + table +
					" WHERE tenant = 'dev'")
				if err != nil || len(rows) != 1 || rows[0][0] != days && rows[0][0] != "" {
					t.Errorf("%s: rows are kept for %v days, and should be for %s: %v", table, rows, days, err)
				}
			}
			b.audit(false)
		})
	}
}

// retain asks for the class long for what is stored.
func (b *cutService) retain(args ...string) {
	b.t.Helper()
	out, err := exec.Command(binary, append([]string{"tenant", "retain", "dev", "long", "--data", b.data()}, args...)...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("tenant retain: %v: %s", err, out)
	}
	b.t.Logf("tenant retain: %s", out)
}

// moved is how many rows have the class long.
func (b *cutService) moved() (n int) {
	rows, err := b.tsv("SELECT sum(rows) FROM system.parts WHERE active AND database = 'warpline' AND NOT startsWith(table, 'retain_') AND " +
		"(partition LIKE '%,30)' OR partition LIKE '%,800)')")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range rows[0][0] {
		n = n*10 + int(c-'0')
	}
	return n
}
