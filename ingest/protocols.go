package ingest

import (
	"net/http"
	"time"
)

// The gateway speaks HTTP/1.1 and HTTP/2 on one address: over TLS as the client chooses (ALPN), without TLS to who begins with HTTP/2's
// preface. Each request of HTTP/2 is a stream of a connection. What bounds requests, seats, turns, rates and speeds, is asked by each
// stream as by each request of HTTP/1.1. The bounds here, and that of connections, are for what streams cost before that.
const (
	// streamsPerConnection may be open at once. A client has four channels a session.
	streamsPerConnection = 60
	// streamBuffer is how much of a body that nobody reads yet, because it waits for a seat, is held. A connection has as much for each of
	// its streams, so that one that waits does not stop the others; together less than the 4 MiB that net/http allows.
	streamBuffer = 64 << 10
	// answerTime is how long a client may take to read an answer.
	answerTime = 30 * time.Second
	// scrapes of /metrics are made at once. Each holds some 100 kB until it is read, and needs no key.
	scrapes = 16
)

// nextProtos are the protocols that TLS offers, the preferred one first.
var nextProtos = []string{"h2", "http/1.1"}

// speakBoth lets a server speak both protocols, within the bounds.
func speakBoth(srv *http.Server) {
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streamsPerConnection, MaxReceiveBufferPerStream: streamBuffer,
		MaxReceiveBufferPerConnection: streamsPerConnection * streamBuffer,
		WriteByteTimeout:              answerTime,
	}
}
