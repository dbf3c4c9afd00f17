package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Names beyond limit-names are not called stored before they are: sent again they are refused while the limit stands, and stored, once,
// when it is raised. A row of a line whose other rows are stored is left, as short as the line may be. Until then what they name is added
// up as (more names), so that sums over names are the totals.
func TestRejectReplayOfNames(t *testing.T) {
	dir := dataFolder(t)
	_, r, sql := serving(t, dir)
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	run := runAt(t, dir)
	send := func(lines ...string) (policy string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Gateway+"/api/v1/events/stream",
			strings.NewReader(strings.Join(lines, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
		req.Header.Set("X-GpuFlight-Session-Id", "s")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode >= 300 {
			t.Fatal(res.Status)
		}
		return res.Header.Get("RateLimit-Policy")
	}
	// Each change is made with a burst that answers tell, so that the gateway is known to have it.
	limit := func(command, names, burst string) {
		t.Helper()
		run(exitOK, "tenant", command, "default", "--limit-names", names, "--limit-burst-seconds", burst)
		for deadline := time.Now().Add(60 * time.Second); !strings.Contains(send(), ";w="+burst); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the gateway does not take the change over")
			}
		}
	}
	kernels := func(batch int) string {
		return fmt.Sprintf(`{"type":"kernel_event_batch","session_id":"s","batch_id":%d,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
			`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[1,1,7,9,1,0,32,0],`+
			`[2,2,7,9,2,0,32,0],[3,3,7,9,3,0,32,0],[4,4,7,9,4,0,32,0]]}`, batch)
	}
	limit("create", "2", "7")
	send(`{"type":"dictionary_update","session_id":"s","kernel_dict":{"1":"a","2":"b","3":"c","4":"d"}}`,
		`{"type":"scope_event_batch","session_id":"s","batch_id":1,"base_time_ns":1795175929972476039,"columns":["dt_ns","name_id",`+
			`"scope_instance_id","event_type","depth"],"rows":[[1,1,1,0,0],[2,1,2,9,0]]}`, kernels(1))
	const names = "SELECT count() FROM warpline.dictionaries WHERE session_id = 's' AND dict != 'more_names'"
	const stats = "SELECT arraySort(groupArray((kernel, calls))) FROM (SELECT kernel, sum(calls) AS calls FROM warpline.kernel_stats " +
		"WHERE session_id = 's' GROUP BY kernel)"
	const launches = "SELECT arraySort(groupArray((kernel, n))) FROM (SELECT kernel, count() AS n FROM warpline.kernels " +
		"WHERE session_id = 's' GROUP BY kernel)"
	eventually(t, sql, names, "2")
	eventually(t, sql, "SELECT arraySort(groupArray(reason)) FROM warpline.rejects", "['bad_value','dictionary_full']")
	eventually(t, sql, stats, "[('(more names)',2),('a',1),('b',1)]")
	eventually(t, sql, launches, "[('(more names)',2),('a',1),('b',1)]")
	settled(t, dir)
	replay := func(code int, reason, now string) {
		t.Helper()
		if got := run(code, "reject", "replay", "--reason", reason); !strings.Contains(got.stdout, now) {
			t.Errorf("%s: %+v, want %q", reason, got, now)
		}
	}
	replay(exitOK, "bad_value", "it is a row of a line")
	replay(exitFailed, "dictionary_full", "refused again")
	eventually(t, sql, names, "2")
	limit("set", "0", "8")
	replay(exitOK, "dictionary_full", "taken")
	eventually(t, sql, names, "4")
	replay(exitOK, "dictionary_full", "it was taken at")
	eventually(t, sql, names, "4")
	send(kernels(2))
	eventually(t, sql, stats, "[('(more names)',2),('a',2),('b',2),('c',1),('d',1)]")
	eventually(t, sql, launches, "[('a',2),('b',2),('c',2),('d',2)]")
	balanced(t, "--deep", "--data", dir)
}
