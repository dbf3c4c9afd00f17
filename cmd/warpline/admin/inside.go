package admin

import (
	"bytes"
	"io"
	"net/http"
)

// inside sends requests to a handler of this process: no address, certificate or proxy can stand between.
type inside struct{ to http.Handler }

// RoundTrip implements http.RoundTripper.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	asked := r.Clone(r.Context())
	asked.RemoteAddr, asked.RequestURI = "127.0.0.1:0", r.URL.RequestURI()
	w := &kept{header: http.Header{}, status: http.StatusOK}
	i.to.ServeHTTP(w, asked)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// kept is an answer that is kept whole. Those of the gateway are small.
type kept struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *kept) WriteHeader(status int) {
	if !k.begun && status >= http.StatusOK {
		k.status, k.begun = status, true
	}
}

// Write implements http.ResponseWriter.
func (k *kept) Write(p []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(p)
}
