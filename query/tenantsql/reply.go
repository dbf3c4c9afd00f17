package tenantsql

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// reply is how an error of ClickHouse is answered. ClickHouse itself says 500 of most of them, and a 500 says that the service is broken.
type reply struct {
	status int    // 0: ClickHouse's, or 400 where that says that the service is broken
	advice string // what to do, "" where ClickHouse's words say it
	again  string // Retry-After
}

// replies are by ClickHouse's codes.
var replies = map[int]reply{
	// What a question may take.
	158: {422, tooMuchRead, ""}, // TOO_MANY_ROWS
	307: {422, tooMuchRead, ""}, // TOO_MANY_BYTES
	396: {422, tooMuchSaid, ""}, // TOO_MANY_ROWS_OR_BYTES
	241: {422, tooMuchHeld, ""}, // MEMORY_LIMIT_EXCEEDED
	159: {408, tooLong, ""},     // TIMEOUT_EXCEEDED
	160: {408, tooLong, ""},     // TOO_SLOW
	202: {429, "ask fewer at a time", "1"},
	201: {429, "wait for the end of the minute", "60"}, // QUOTA_EXCEEDED
	// What a tenant may.
	497: {403, noRight, ""},                                                                                 // ACCESS_DENIED
	164: {403, "a tenant asks, and changes neither rows nor settings, save those that shape an answer", ""}, // READONLY
	452: {403, "take the setting out of the question: no setting lifts a bound", ""},                        // SETTING_CONSTRAINT_VIOLATION
	// What is wrong with the question.
	60:  {404, "SHOW TABLES lists the views", ""},                                                // UNKNOWN_TABLE
	47:  {404, "DESCRIBE lists the columns of a view", ""},                                       // UNKNOWN_IDENTIFIER
	46:  {404, "system.functions lists the functions", ""},                                       // UNKNOWN_FUNCTION
	153: {400, "use intDivOrZero, or nullIf for what can be zero", ""},                           // ILLEGAL_DIVISION
	456: {400, "give each {name:Type} of the question a value: ?param_name= in the address", ""}, // UNKNOWN_QUERY_PARAMETER
	43:  {400, "make the types fit, with toString, toFloat64 and the like", ""},                  // ILLEGAL_TYPE_OF_ARGUMENT
	// What is not the question's fault.
	394:  {503, "the operator ended the question: ask again", "5"},         // QUERY_WAS_CANCELLED
	236:  {503, notNow, "5"},                                               // ABORTED
	439:  {503, notNow, "5"},                                               // CANNOT_SCHEDULE_TASK
	173:  {503, notNow, "5"},                                               // CANNOT_ALLOCATE_MEMORY
	243:  {503, "the disk of ClickHouse is full: tell the operator", "60"}, // NOT_ENOUGH_SPACE
	49:   {500, broken, ""},                                                // LOGICAL_ERROR
	1001: {500, broken, ""},                                                // STD_EXCEPTION
	1002: {500, broken, ""},                                                // UNKNOWN_EXCEPTION
	40:   {500, damaged, ""},                                               // CHECKSUM_DOESNT_MATCH
	33:   {500, damaged, ""},                                               // CANNOT_READ_ALL_DATA
	246:  {500, damaged, ""},                                               // CORRUPTED_DATA
}

const (
	tooMuchRead = "a question has its bound of rows to read: ask about one session or a shorter time, or use a rollup such as kernel_stats"
	tooMuchSaid = "an answer has its bounds in rows and bytes, and so has what a sort or join puts into files: add a LIMIT, or ask about less"
	tooMuchHeld = "a question has its bound of memory: ask about fewer sessions or a shorter time, group by fewer columns, or take quantile " +
		"and uniq instead of exact ones"
	noRight = "a tenant reads the views alone, named without a database: SELECT … FROM kernels. SHOW TABLES lists them"
	tooLong = "a question has its bound of time: ask about fewer sessions or a shorter time, or use a rollup such as kernel_stats"
	notNow  = "ClickHouse has no room for the question now: ask again in a few seconds"
	broken  = "this is a fault of ClickHouse: ask in other words, and tell the operator"
	damaged = "this may be damage to what is stored: tell the operator"
)

const codeMemory = 241

// refuse passes on an error of ClickHouse: with a status that says whose fault it is, and with what to do. native is whether the client
// understands ClickHouse's own compression, in which errors come then.
func (d *Door) refuse(w http.ResponseWriter, res *http.Response, code int, native bool) {
	how := replies[code]
	if how.status == 0 {
		how.status = res.StatusCode
		if how.status/100 == 5 && how.status != http.StatusServiceUnavailable {
			how.status = http.StatusBadRequest
		}
	}
	body, plain := readable(res, native)
	var begin []byte
	if plain {
		begin = make([]byte, 4<<10)
		n, err := io.ReadFull(body, begin)
		if begin = begin[:n]; err == nil {
			body = io.MultiReader(bytes.NewReader(begin), body)
		} else {
			body = bytes.NewReader(begin)
		}
		w.Header().Del("Content-Encoding")
	}
	if code == codeMemory && isOfAll(begin) {
		how = reply{http.StatusServiceUnavailable, notNow, "5"}
	}
	if how.again != "" {
		w.Header().Set("Retry-After", how.again)
	}
	d.asked.WithLabelValues(statusLabel(how.status)).Inc()
	w.WriteHeader(how.status)
	if !plain {
		passOn(w, body)
		return
	}
	if how.advice != "" {
		body = io.MultiReader(body, strings.NewReader("Warpline: "+how.advice+".\n"))
	}
	if native {
		to := &frames{w, compress.NewWriter(0, compress.LZ4)}
		_, _ = io.CopyBuffer(onlyWriter{to}, onlyReader{body}, make([]byte, 64<<10)) // a client that is gone hears nothing
		return
	}
	passOn(w, body)
}

// isOfAll reports whether the memory that was not there is all of ClickHouse's, and not what a question or its user may have.
func isOfAll(said []byte) bool {
	i := bytes.Index(said, []byte(" memory limit exceeded"))
	return i >= 0 && !bytes.HasSuffix(said[:i], []byte("Query")) && !bytes.HasSuffix(said[:i], []byte("User"))
}

// encodings are those in which ClickHouse may answer: an error is added to, so it must be possible to read it.
var encodings = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"zstd": func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(16<<20))
	},
	"lz4": func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil },
}

// readable is the text of an answer, and whether it is that: not if it is empty, or in what nobody here can read.
func readable(res *http.Response, native bool) (io.Reader, bool) {
	switch name := res.Header.Get("Content-Encoding"); {
	case name != "":
		open := encodings[name]
		if open == nil {
			return res.Body, false
		}
		text, err := open(res.Body)
		if err != nil { // there is none, as of HEAD
			return http.NoBody, true
		}
		return text, true
	case native:
		return frameReader{compress.NewReader(res.Body)}, true
	}
	return res.Body, true
}

// acceptable leaves of the encodings that a client takes those that errors can be read in. Who takes ClickHouse's own compression gets that
// alone: in both at once ClickHouse writes errors of no bytes.
func acceptable(asked string, native bool) string {
	if native {
		return ""
	}
	return strings.Join(slices.DeleteFunc(strings.Split(asked, ","), func(one string) bool {
		name, _, _ := strings.Cut(one, ";")
		return encodings[strings.TrimSpace(name)] == nil
	}), ",")
}

// isNative reports whether a question asks for ClickHouse's own compression, as ClickHouse reads it.
func isNative(compress string) bool {
	on, err := strconv.ParseBool(compress)
	return err == nil && on
}

// frameReader reads ClickHouse's own compression, and says at its end that it is the end.
type frameReader struct{ *compress.Reader }

// Read implements io.Reader.
func (r frameReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	return n, err
}

// frames writes ClickHouse's own compression.
type frames struct {
	to io.Writer
	*compress.Writer
}

// Write implements io.Writer.
func (f *frames) Write(p []byte) (int, error) {
	if err := f.Compress(p); err != nil {
		return 0, err
	}
	if _, err := f.to.Write(f.Data); err != nil {
		return 0, err
	}
	return len(p), nil
}

type onlyWriter struct{ io.Writer }

type onlyReader struct{ io.Reader }
