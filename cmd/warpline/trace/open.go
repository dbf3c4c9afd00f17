package trace

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// perfettoUI is where the viewer is, and the only origin that may read the file.
const perfettoUI = "https://ui.perfetto.dev"

// DefaultListen is the one plain address from which the policy of Perfetto's viewer lets it read.
const DefaultListen = "127.0.0.1:9001"

// Open serves a trace to Perfetto's viewer in a browser on this machine, until its context ends.
type Open struct {
	Path   string // a file
	Listen string // "" is DefaultListen
}

// Run prints the link to open, and serves the file under a path that nobody can guess.
func (o *Open) Run(ctx context.Context, out, words io.Writer) error {
	file, err := os.Open(o.Path)
	if err != nil {
		return fmt.Errorf("%w: name a trace", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file: name a trace", o.Path)
	}
	if err != nil {
		return err
	}
	listen := o.Listen
	if listen == "" {
		listen = DefaultListen
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w: the viewer reads from %s alone: end what uses it, perhaps another \"warpline trace open\"", err, DefaultListen)
	}
	at := "/" + rand.Text() + "/" + filepath.Base(o.Path)
	link := (&url.URL{Scheme: "http", Host: l.Addr().String(), Path: at}).String()
	server := &http.Server{Handler: served(l.Addr().String(), at, info, file), ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10}
	fmt.Fprintf(out, "%s/#!/?url=%s\n", perfettoUI, link)
	fmt.Fprintln(words, "open this link in a browser on this machine; the file is served until Ctrl-C")
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// served answers for the one file. Whoever asks by another name of this machine, as a page whose name was bent to 127.0.0.1 does, or with a
// query, or from another origin, gets nothing.
func served(host, at string, info os.FileInfo, file *os.File) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Vary", "Origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		origin := r.Header.Get("Origin")
		known := r.Host == host && r.URL.RawQuery == "" && subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(at)) == 1
		if !known || origin != "" && origin != perfettoUI {
			http.Error(w, "nothing here: open the link that warpline trace open printed", http.StatusNotFound)
			return
		}
		h.Set("Access-Control-Allow-Origin", perfettoUI)
		switch r.Method {
		case http.MethodOptions: // the browser asks whether a public page may read from this machine
			h.Set("Access-Control-Allow-Methods", "GET, HEAD")
			h.Set("Access-Control-Allow-Private-Network", "true")
			w.WriteHeader(http.StatusNoContent)
		case http.MethodGet, http.MethodHead:
			h.Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", info.ModTime(), io.NewSectionReader(file, 0, info.Size()))
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		}
	})
}
