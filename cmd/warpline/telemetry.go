package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/warpline/warpline/proto/telemetry"
)

// telemetryCmd is what can be done with memory telemetry without a server.
type telemetryCmd struct {
	Check telemetryCheckCmd `cmd:"" help:"Say of each record of a file whether it would be accepted, and as what."`

	Divergences telemetryDivergencesCmd `cmd:"" help:"Print where Warpline judges otherwise than stormlog, on purpose."`
}

type telemetryCheckCmd struct {
	File             string  `arg:"" placeholder:"FILE" help:"${telemetry_check_file}"`
	PermissiveLegacy bool    `default:"true" help:"Convert records of before schema version 2; --permissive-legacy=false refuses them."`
	EventsKey        *string `placeholder:"KEY" help:"The key of a top-level object that holds the list of events."`
	NDJSON           bool    `name:"ndjson" xor:"form" help:"The file holds a record a line, whatever its name."`
	CSV              bool    `name:"csv" xor:"form" help:"The file is a tracker's CSV export, whatever its name."`
	ExitCode         bool    `help:"Exit with 1 if anything is refused."`
	telemetryRules
}

// Run reads the file twice: whether it can be read as events at all is known only at its end.
func (c *telemetryCheckCmd) Run(ctx context.Context, p *program) error {
	format, zipped := telemetryFormat(c.File)
	switch {
	case c.CSV:
		format = "csv"
	case c.NDJSON:
		format = "ndjson"
	}
	f, err := c.open(p.Stdin, zipped)
	if err != nil {
		return err
	}
	defer f.Close()
	o := telemetry.Options{Peer: c.peer(), DefaultSessionID: c.DefaultSessionID, RefuseLegacy: !c.PermissiveLegacy, EventsKey: c.EventsKey,
		Lines: format == "ndjson", TornTail: strings.HasSuffix(strings.TrimSuffix(c.File, ".gz"), ".jsonl")}
	out := bufio.NewWriterSize(p.Stdout, 1<<16)
	accepted, refused, hint, err := checkTelemetry(ctx, f, format == "csv", out, o)
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("check %s: %w", c.File, err)
	}
	if hint != "" {
		fmt.Fprintf(p.Stderr, "%s: %s\n", c.File, hint)
	}
	fmt.Fprintf(p.Stderr, "%s accepted, %d refused\n", english.Plural(accepted, "record", ""), refused)
	if c.ExitCode && refused > 0 {
		return withCode(fmt.Errorf("check %s: not everything is acceptable; see the lines with \"reject\"", c.File), exitFailed)
	}
	return nil
}

// open opens the file. What cannot be read twice is copied first, and what is packed is unpacked.
func (c *telemetryCheckCmd) open(stdin io.Reader, zipped bool) (*os.File, error) {
	var src io.Reader = stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, usage(err)
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && !zipped {
			return f, nil
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, usage(fmt.Errorf("%s is a folder: name one file", c.File))
		}
		src = f
	}
	if zipped {
		z, err := gzip.NewReader(bufio.NewReader(src))
		if err != nil {
			return nil, usage(fmt.Errorf("unpack %s: %w: it has a name that ends in .gz and does not begin as gzip does", c.File, err))
		}
		src = z
	}
	f, err := os.CreateTemp("", "warpline-check-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // it lives as long as it is open
	_, err = io.Copy(f, src)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		if zipped {
			err = fmt.Errorf("%w: the gzip in it is damaged or cut short", err)
		}
		return nil, fmt.Errorf("read %s: %w", c.File, err)
	}
	return f, nil
}

// checkTelemetry writes one line for each record of f, or one line alone if f cannot be read as events, and then the hint
// says how it might be.
func checkTelemetry(ctx context.Context, f *os.File, csv bool, out io.Writer, o telemetry.Options) (accepted, refused int, hint string,
	err error) {
	var line []byte
	var records telemetry.Reader
	if csv {
		records, err = telemetry.NewTable(f, o)
	} else {
		var layout telemetry.Layout
		layout, err = telemetry.Survey(f, o)
		records = layout.Decoder(f, o)
	}
	var unreadable *telemetry.DocumentError
	if errors.As(err, &unreadable) {
		line = appendRejection([]byte(`{`), unreadable.Code, unreadable.Message)
		_, err = out.Write(line)
		return 0, 1, otherwise(f, csv, unreadable.Code), err
	}
	if err != nil {
		return 0, 0, "", err
	}
	for ctx.Err() == nil {
		r, err := records.Next()
		if err == io.EOF {
			return accepted, refused, "", nil
		}
		if err != nil {
			return accepted, refused, "", fmt.Errorf("the file changed while it was read: %w", err)
		}
		line = strconv.AppendInt(append(line[:0], `{"index":`...), int64(r.Index), 10)
		line = append(line, ',')
		if r.Refusal != nil {
			refused++
			line = appendRejection(line, r.Refusal.Code, r.Refusal.Message)
		} else {
			accepted++
			line = append(line, `"verdict":"accept","event":`...)
			line = append(r.Event.AppendJSON(line), '}', '\n')
		}
		if _, err := out.Write(line); err != nil {
			return accepted, refused, "", err
		}
	}
	return accepted, refused, "", ctx.Err()
}

// otherwise says how a file that could not be read might be: the peer's words, which stand in the output, know only of
// JSON. It returns "" if there is nothing to say.
func otherwise(f io.ReaderAt, csv bool, code telemetry.Code) string {
	var head [4]byte
	n, _ := f.ReadAt(head[:], 0) // a file of less than four bytes ends with an error
	switch b := head[:n]; {
	case n == 0:
		return "the file is empty"
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		return "it is packed with gzip: give it a name that ends in .gz, or unpack it first"
	case bytes.HasPrefix(b, []byte("\ufeff")) && !csv:
		return "it begins with a byte order mark: save it as UTF-8 without one"
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return "it is UTF-16: save it as UTF-8"
	}
	if code != telemetry.BadJSON || csv {
		return ""
	}
	if _, err := telemetry.NewTable(io.NewSectionReader(f, 0, 1<<20), telemetry.Options{}); err == nil && head[0] != '{' && head[0] != '[' {
		return "it looks like a CSV export: --csv reads it as one"
	}
	if r, err := telemetry.NewDecoder(io.NewSectionReader(f, 0, 1<<62), telemetry.Options{Lines: true}).Next(); err == nil && r.Event != nil {
		return "its first line is a record: --ndjson reads a record a line"
	}
	return ""
}

func appendRejection(line []byte, code telemetry.Code, message string) []byte {
	line = append(line, `"verdict":"reject","code":`...)
	line = telemetry.AppendString(line, string(code))
	line = append(line, `,"message":`...)
	return append(telemetry.AppendString(line, message), '}', '\n')
}

// telemetryDivergencesCmd prints where Warpline judges otherwise than stormlog.
type telemetryDivergencesCmd struct{}

func (c *telemetryDivergencesCmd) Run(p *program) error {
	list := telemetry.Divergences()
	fmt.Fprintf(p.Stdout, "Where Warpline differs from stormlog on purpose, in %d places; all else is as stormlog does it.\n", len(list))
	for i, d := range list {
		fmt.Fprintf(p.Stdout, "\n%d. %s\n   stormlog  %s\n   warpline  %s\n   refused   %s\n", i+1,
			d.What, d.Peer, d.Here, cmp.Or(string(d.Code), "no"))
	}
	return nil
}
