package engine_test

import (
	"testing"

	"github.com/warpline/warpline/sink/engine"
)

func TestGist(t *testing.T) {
	const fine = "Logging warning to /d/logs/engine.log\n\x1b[0J\x1b[?25hClickHouse local version 26.7.2.1.\n\nQuery id: " +
		"b2bef629\n\nOk.\n\n0 rows in set. Elapsed: 0.002 sec. \n"
	for name, c := range map[string]struct{ log, want string }{
		"killed": {fine, ""},
		"crashed": {fine + `2026.11.20 15:43:44.747621 [ 19950 ] {} <Fatal> ClientBase: ########## Short fault info ############
2026.11.20 15:43:44.749418 [ 19950 ] {} <Fatal> ClientBase: (version 26.7.2.1, build id: 03CE) (from thread 19942) Received signal 11
2026.11.20 15:43:44.749440 [ 19950 ] {} <Fatal> ClientBase: Signal description: Segmentation fault
2026.11.20 15:43:44.749444 [ 19950 ] {} <Fatal> ClientBase: Address: 0x4de0. Access: read. Sent by kill, sigsend.
2026.11.20 15:43:44.749448 [ 19950 ] {} <Fatal> ClientBase: Stack trace: 0x00007fd22d5132ed 0x00007fd1b44a45cb
2026.11.20 15:43:44.749450 [ 19951 ] {} <Warning> BackgroundSchedulePool/BgStrmSchPool: Temporarily pause scheduling
2026.11.20 15:43:44.749492 [ 19950 ] {} <Fatal> ClientBase: 3. __libc_read @ 0x00000000000f82ed
`, "<Fatal> ClientBase: Signal description: Segmentation fault"},
		"refused": {fine + `2026.11.20 15:41:44.204775 [ 15133 ] {} <Error> TCPHandler: Code: 81. DB::Exception: Database x does not exist. ` +
			`(UNKNOWN_DATABASE), Stack trace (when copying this message, always include the lines below):

0. ? @ 0x000000001c8fa4b3
engine child: the engine ended by itself
`, "<Error> TCPHandler: Code: 81. DB::Exception: Database x does not exist. (UNKNOWN_DATABASE) | engine child: the engine ended by itself"},
		"nothing": {"", ""},
	} {
		if got := engine.Gist(c.log); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
