package service

import "testing"

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8080": false, "[::1]:8080": false, "localhost:0": false, "127.9.9.9:1": false, ":8080": true, "0.0.0.0:8080": true,
		"[::]:1": true, "192.0.2.1:8080": true, "gateway:8080": true, "nonsense": true,
	} {
		if got := public(addr); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
}
