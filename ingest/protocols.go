package ingest

import (
	"net/http"
	"time"
)

// The gateway speaks HTTP/1.1 and HTTP/2 on one address: over TLS as the client chooses (ALPN), without TLS HTTP/2 if the connection begins
// with its preface. Each request of HTTP/2 is a stream of a connection. The bounds of requests, seats, turns, rates and speeds hold for
// each stream as for each request of HTTP/1.1. The bounds here, and the bound of connections, are for what streams cost before that.
const (
	// streamsPerConnection may be open at once. A client has four channels a session.
	streamsPerConnection = 60
	// streamBuffer is how much is held of a body that is not read yet, because it waits for a seat. A connection has as much for each of
	// its streams, so one that waits does not stop the others; together less than the 4 MiB that net/http allows.
	streamBuffer = 64 << 10
	// answerTime is how long a client may take to read an answer.
	answerTime = 30 * time.Second
	// scrapes is how many scrapes of /metrics are served at once. Each holds some 100 kB until it is read, and does not need a key.
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
