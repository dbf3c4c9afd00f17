package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/warpline/warpline/proto/chrometrace"
)

// Formats beside those of telemetry: of Parca's agent a file of its offline mode and a cubin; of an intra-kernel profiler the folder with
// the buffers of a launch and a trace.
const (
	formatPadata  = "padata"
	formatCubin   = "cubin"
	formatCapture = "capture"
	formatRegions = "region trace"
	formatTrace   = "trace"
)

// route is where a file is posted.
func (c *sendCmd) route(f telemetryFile) string {
	switch f.format {
	case formatPadata:
		return "/api/v1/parca"
	case formatCubin:
		if id := buildIDOf(f.path); id != "" {
			return "/api/v1/cubins?" + url.Values{"build_id": {id}}.Encode()
		}
		return "/api/v1/cubins"
	case formatCapture, formatRegions:
		return "/api/v1/intrakernel"
	case formatTrace:
		return "/api/v1/traces" + c.ofTrace()
	}
	return "/api/v1/telemetry?" + c.query(f)
}

var buildIDName = regexp.MustCompile(`^[0-9a-f]{32}$`)

// buildIDOf is the build id that the name of a cubin says, as <build id>.cubin: a stripped one does not have it otherwise.
func buildIDOf(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	if buildIDName.MatchString(name) {
		return name
	}
	return ""
}

// captureFields are the fields of a capture and the names of their files, which may be packed as .gz.
var captureFields = [][2]string{{"input", "input.json"}, {"events", "events.bin"}, {"counters", "counters.bin"}}

// captureIn looks for the buffers of a launch in a folder.
func captureIn(dir string) (telemetryFile, bool) {
	f := telemetryFile{path: dir, format: formatCapture}
	for _, field := range captureFields {
		_, size, err := maybePacked(filepath.Join(dir, field[1]))
		if err != nil {
			return f, false
		}
		f.size += size
	}
	return f, true
}

// maybePacked is the path of a file, or of what stands for it as .gz.
func maybePacked(path string) (found string, size int64, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		path += ".gz"
		info, err = os.Stat(path)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		return "", 0, err
	}
	return path, info.Size(), nil
}

// captureBody is the buffers of a launch as a form. Whoever reads it closes it.
func captureBody(dir string) (body io.ReadCloser, contentType string, err error) {
	var files []*os.File
	for _, field := range captureFields {
		path, _, err := maybePacked(filepath.Join(dir, field[1]))
		var file *os.File
		if err == nil {
			file, err = os.Open(path)
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, "", err
		}
		files = append(files, file)
	}
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		var err error
		for i, file := range files {
			var part io.Writer
			if err == nil {
				part, err = form.CreateFormFile(captureFields[i][0], captureFields[i][1])
			}
			if err == nil {
				_, err = io.Copy(part, file)
			}
			file.Close()
		}
		if err == nil {
			err = form.Close()
		}
		w.CloseWithError(err)
	}()
	return r, form.FormDataContentType(), nil
}

// regionsAre how processes of a trace of write_trace are called, and of one of Triton's Proton.
var regionsAre = regexp.MustCompile(`"ph":"M","name":"process_name","pid":\d+,"tid":0,"args":\{"name":"sm \d+|` +
	`"pid": ?"(?:[^"]* Core\d+ CTA\d+|Kernel Call Path")`)

// isRegions reports whether the file is a trace of an intra-kernel profiler.
func (f *telemetryFile) isRegions() bool {
	in, file, err := f.open()
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, 16<<10)
	n, _ := io.ReadFull(in, head)
	return regionsAre.Match(head[:n])
}

// traceFlags say whose traces are.
type traceFlags struct {
	Job  string `placeholder:"NAME" help:"Job that traces are of."`
	Rank *int32 `placeholder:"N" help:"Rank that a trace is of; by default the one that it says."`
}

// ofTrace is what the query says of a trace.
func (c *traceFlags) ofTrace() string {
	q := url.Values{}
	if c.Job != "" {
		q.Set("job", c.Job)
	}
	if c.Rank != nil {
		q.Set("rank", strconv.FormatInt(int64(*c.Rank), 10))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// maxTraceHead bounds what is read of a file to find out whether it is a trace.
const maxTraceHead = 4 << 20

// isTrace reports whether the file is a Chrome trace: a list, under traceEvents or not, whose first readable element has a phase.
func (f *telemetryFile) isTrace() bool {
	in, file, err := f.open()
	if err != nil {
		return false
	}
	defer file.Close()
	events := chrometrace.NewReader(io.LimitReader(in, maxTraceHead))
	for {
		e, err := events.Next()
		var broken *chrometrace.EventError
		if errors.As(err, &broken) {
			continue
		}
		return err == nil && len(e.Phase) > 0
	}
}
