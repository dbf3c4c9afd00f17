package engine_test

import (
	"net"
	"testing"
	"time"
)

// rude connects many times, sends things that are no protocol, and resets the connection.
func rude(t *testing.T, addr string) {
	t.Helper()
	for _, say := range []string{"", "\x00\x00\x00\x00", "GET / HTTP/9.9\r\n",
		"POST /?query=SELECT+1 HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nx", "\xff\xfe\xfd",
		"GET /?query=SELECT+number+FROM+system.numbers HTTP/1.1\r\nHost: x\r\n\r\n"} {
		for range 10 {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write([]byte(say)) // whether it arrives is the other side's affair
			time.Sleep(2 * time.Millisecond)
			_ = c.(*net.TCPConn).SetLinger(0) // a reset, not an orderly close
			c.Close()
		}
	}
}
