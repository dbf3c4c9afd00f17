// Package rpc serves gRPC on the gateway's HTTP server, so that the bounds of its connections, streams and speeds hold for gRPC too. A
// message is not read before its method asks for it, see Stream.Receive: until then a call costs what HTTP/2 holds of a body.
//
// Start with New. Messages are bytes here; methods decode and encode them.
package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// MaxMessage is the largest message of all, before and after decompression: what Parca's agent sends at most.
const MaxMessage = 32 << 20

// Method is one method of a service. All are served as streams, which are the same on the wire.
type Method struct {
	// Name is as on the wire: /package.Service/Method.
	Name string
	// Serve handles a call. Its error is the answer, see Error; nil is OK.
	Serve func(ctx context.Context, s *Stream) error
}

// Server serves methods. Make it with New. It is safe for concurrent use.
type Server struct {
	grpc      *grpc.Server
	inflating chan struct{} // bounds how many messages are decompressed at once, each to MaxMessage at most
}

// New makes a server for so many processors. Other methods than these are answered with Unimplemented.
func New(methods []Method, processors int) *Server {
	s := &Server{
		grpc: grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(MaxMessage), grpc.WaitForHandlers(true)),
		// each takes the processor for a fraction of a second at most
		inflating: make(chan struct{}, max(2, processors)),
	}
	services := map[string]*grpc.ServiceDesc{}
	for _, m := range methods {
		name, method := path.Split(m.Name)
		d := services[name]
		if d == nil {
			d = &grpc.ServiceDesc{ServiceName: name[1 : len(name)-1], HandlerType: (*any)(nil)}
			services[name] = d
		}
		serve := m.Serve
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, of grpc.ServerStream) error {
				t, ok := of.Context().Value(streamKey{}).(*Stream)
				if !ok {
					return status.Error(codes.Internal, "BUG: rpc: a call without its stream")
				}
				if !t.start() {
					return status.Error(codes.Canceled, "the client has left")
				}
				defer close(t.done)
				t.grpc = of
				return serve(of.Context(), t)
			}})
	}
	for _, d := range services {
		s.grpc.RegisterService(d, struct{}{})
	}
	return s
}

// Bounds are what one call may cost.
type Bounds struct {
	// Most is the largest message.
	Most int64
	// Take asks for n bytes of memory, before they are read, and says why they cannot be had. Give gives them back. Both are called from
	// several goroutines.
	Take func(n int64) error
	Give func(n int64)
	// Still is how long nothing may come of a message that is awaited. LeastSpeed is how many bytes a second it must bring on average, once
	// it has taken Grace.
	Still, Grace time.Duration
	LeastSpeed   int64
}

type streamKey struct{}

// Serve answers one call. It returns when the answer is written and nothing of the call is held any more.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, b Bounds) {
	t := &Stream{server: s, bounds: b, body: newBody(r.Body, http.NewResponseController(w), b), done: make(chan struct{})}
	defer t.Drop()
	defer t.wait() // gRPC does not, when the client leaves
	r = r.WithContext(context.WithValue(r.Context(), streamKey{}, t))
	r.Body = t.body
	if r.Header.Get("Grpc-Encoding") == "gzip" { // see Stream.inflate
		r.Header = r.Header.Clone()
		r.Header.Del("Grpc-Encoding")
		t.body.inflates = true
	}
	s.grpc.ServeHTTP(w, r)
}

// Stream is the messages of one call. It is used by the goroutine of its method alone.
type Stream struct {
	server *Server
	grpc   grpc.ServerStream
	body   *body
	bounds Bounds
	held   int64 // bytes taken for messages that were received
	bufs   []mem.Buffer
	begun  atomic.Int32
	done   chan struct{} // closed when the method has returned
}

// States of a call: its method has begun, or will not begin.
const (
	callBegun = 1
	callOver  = 2
)

func (s *Stream) start() bool { return s.begun.CompareAndSwap(0, callBegun) }

// wait waits for the method, if it has begun.
func (s *Stream) wait() {
	if !s.begun.CompareAndSwap(0, callOver) {
		<-s.done
	}
}

// Receive reads the next message; io.EOF says that there is none. It is valid until Drop, or the end of the call. An error of Bounds.Take
// is returned as it is.
func (s *Stream) Receive() ([]byte, error) {
	compressed, err := s.body.next(s.grpc.Context())
	if err != nil {
		return nil, err
	}
	if compressed {
		select {
		case s.server.inflating <- struct{}{}:
			defer func() { <-s.server.inflating }()
		case <-s.grpc.Context().Done():
			return nil, s.grpc.Context().Err()
		}
	}
	var m message
	if err := s.grpc.RecvMsg(&m); err != nil {
		s.bounds.Give(s.body.claim())
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, err
	}
	s.held += s.body.claim()
	s.bufs = append(s.bufs, m.buffer)
	if compressed {
		return s.inflate(m.buffer.ReadOnlyData())
	}
	return m.buffer.ReadOnlyData(), nil
}

// Drop gives back what was received.
func (s *Stream) Drop() {
	for _, b := range s.bufs {
		b.Free()
	}
	s.bufs = s.bufs[:0]
	s.bounds.Give(s.held + s.body.claim())
	s.held = 0
}

// Received is how many bytes of messages came, as they came.
func (s *Stream) Received() int64 { return s.body.total.Load() }

// Send writes a message. It does not keep it.
func (s *Stream) Send(msg []byte) error { return s.grpc.SendMsg(append([]byte(nil), msg...)) }

// message is what the codec reads into.
type message struct{ buffer mem.Buffer }

// codec leaves messages as they are.
type codec struct{}

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	v.(*message).buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }
