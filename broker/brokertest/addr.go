package brokertest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreeAddr returns a free port of loopback, as host:port, for a server that a test starts, perhaps several times. It is below the range
// that the system hands out to outgoing connections: a client that keeps dialing a dead server's port from within that range sooner or
// later connects to itself and holds the port. Until the test ends it holds the UDP port of that number, so that no other test of any
// process is given it before its server listens, or while that is dead.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := "127.0.0.1:" + strconv.Itoa(10000+rand.IntN(20000))
		mine, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			t.Cleanup(func() { mine.Close() })
			return addr
		}
		mine.Close()
	}
	t.Fatal("no free port between 10000 and 30000")
	return ""
}
