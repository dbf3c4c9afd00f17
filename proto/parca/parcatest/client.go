package parcatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Retry says how a unary call is tried again. Streams never are.
type Retry struct {
	Attempts int           // at most
	First    time.Duration // before the second; it doubles with each, and varies by a tenth
	PerTry   time.Duration
	Overall  time.Duration
}

// AsAgent is how Parca's agent retries: after ten attempts or five minutes a batch is lost.
var AsAgent = Retry{Attempts: 10, First: time.Second, PerTry: 2 * time.Minute, Overall: 5 * time.Minute}

// Fast tries again at once, and longer than any test waits.
var Fast = Retry{Attempts: 1000, First: 20 * time.Millisecond, PerTry: 30 * time.Second, Overall: 5 * time.Minute}

// maxPause bounds pauses of Fast; the agent's ten attempts stay below their sum.
const maxPause = 300 * time.Second

// maxMessage is the agent's default for messages in both directions.
const maxMessage = 32 << 20

// Client talks to a gateway as Parca's agent does. It is safe for concurrent use. Dial makes one.
type Client struct {
	Retry Retry
	// Tries counts the attempts of all unary calls.
	Tries atomic.Int64

	conn  *grpc.ClientConn
	token string
}

// Dial prepares a client of host:port without TLS; it connects when it is used. Options may bring other credentials. An empty token sends
// none. The caller calls Close.
func Dial(addr, token string, o ...grpc.DialOption) (*Client, error) {
	o = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage))}, o...)
	conn, err := grpc.NewClient("passthrough:///"+addr, o...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return &Client{Retry: AsAgent, conn: conn, token: token}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

const (
	profileStore = "/parca.profilestore.v1alpha1.ProfileStoreService/"
	debuginfo    = "/parca.debuginfo.v1alpha1.DebuginfoService/"
	otlpExport   = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
	health       = "/grpc.health.v1.Health/Check"
)

// WriteArrow sends a batch of schema v2 until it is stored, refused for good or given up, and returns the last error.
func (c *Client) WriteArrow(ctx context.Context, ipc []byte) error {
	var m message
	m.sub(1, ipc)
	_, err := c.Call(ctx, profileStore+"WriteArrow", m)
	return err
}

// Export sends an ExportProfilesServiceRequest, compressed with gzip as the agent does.
func (c *Client) Export(ctx context.Context, request []byte) error {
	_, err := c.Call(ctx, otlpExport, request, grpc.UseCompressor(gzip.Name))
	return err
}

// Healthy asks whether the gateway serves.
func (c *Client) Healthy(ctx context.Context) (bool, error) {
	answer, err := c.once(ctx, health, nil)
	numbers, _ := fields(answer)
	return numbers[1] == 1, err
}

// Write has the dialogue of schema v1: samples out, wanted stacks in, locations out, the end. It is never tried again. locations is called
// with the answer's IPC stream of wanted stack ids.
func (c *Client) Write(ctx context.Context, samples []byte, locations func(wanted []byte) []byte) error {
	ctx, cancel := context.WithCancel(c.with(ctx))
	defer cancel()
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, profileStore+"Write")
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	send := func(ipc []byte) error {
		var m message
		m.sub(1, ipc)
		b := []byte(m)
		return s.SendMsg(&b)
	}
	var answer []byte
	if err := send(samples); err != nil && !errors.Is(err, io.EOF) { // what is wrong is in the answer
		return fmt.Errorf("write: %w", err)
	}
	if err := s.RecvMsg(&answer); err != nil {
		return err
	}
	_, parts := fields(answer)
	if err := send(locations(bytes.Clone(parts[1]))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("write: %w", err)
	}
	if err := s.CloseSend(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	for {
		switch err := s.RecvMsg(&answer); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Call has a unary call of any method, tried again by the rules, and returns the last answer.
func (c *Client) Call(ctx context.Context, method string, request []byte, o ...grpc.CallOption) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Retry.Overall)
	defer cancel()
	wait := c.Retry.First
	for try := 1; ; try++ {
		answer, err = c.once(ctx, method, request, o...)
		if err == nil || !again(err) || try >= c.Retry.Attempts || ctx.Err() != nil {
			return answer, err
		}
		jitter := 1 + 0.1*(2*rand.Float64()-1)
		select {
		case <-time.After(time.Duration(float64(min(wait, maxPause)) * jitter)):
		case <-ctx.Done():
			return answer, err
		}
		if wait < time.Second || c.Retry.Attempts <= AsAgent.Attempts { // the fast one stays below a second
			wait *= 2
		}
	}
}

// again says which answers the agent takes as passing.
func again(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

func (c *Client) once(ctx context.Context, method string, request []byte, o ...grpc.CallOption) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(c.with(ctx), c.Retry.PerTry)
	defer cancel()
	c.Tries.Add(1)
	err = c.conn.Invoke(ctx, method, &request, &answer, o...)
	return answer, err
}

func (c *Client) with(ctx context.Context) context.Context {
	if c.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
}

// rawCodec passes messages on as they are: *[]byte.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data) // the buffer is used again
	return nil
}
