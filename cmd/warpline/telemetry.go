package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"github.com/warpline/warpline/proto/telemetry"
)

// telemetryCmd is what can be done with memory telemetry without a server.
type telemetryCmd struct {
	Check telemetryCheckCmd `cmd:"" help:"Say of each record of a file whether it would be accepted, and as what."`
}

type telemetryCheckCmd struct {
	File             string  `arg:"" placeholder:"FILE" help:"A JSON file: one record, an array, or an object with a list of events. - reads stdin. Send takes CSV and bundles too."`
	PermissiveLegacy bool    `default:"true" help:"Convert records of before schema version 2; --permissive-legacy=false refuses them."`
	EventsKey        *string `placeholder:"KEY" help:"The key of a top-level object that holds the list of events."`
	NDJSON           bool    `name:"ndjson" help:"The file holds a record a line."`
	ExitCode         bool    `help:"Exit with 1 if anything is refused."`
}

// Run reads the file twice: whether it can be read as events at all is known only at its end.
func (c *telemetryCheckCmd) Run(ctx context.Context, p *program) error {
	f, err := c.open(p.Stdin)
	if err != nil {
		return err
	}
	defer f.Close()
	o := telemetry.Options{RefuseLegacy: !c.PermissiveLegacy, EventsKey: c.EventsKey, Lines: c.NDJSON}
	out := bufio.NewWriterSize(p.Stdout, 1<<16)
	accepted, refused, err := checkTelemetry(ctx, f, out, o)
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("check %s: %w", c.File, err)
	}
	fmt.Fprintf(p.Stderr, "%s accepted, %d refused\n", english.Plural(accepted, "record", ""), refused)
	if c.ExitCode && refused > 0 {
		return withCode(fmt.Errorf("check %s: not everything is acceptable; see the lines with \"reject\"", c.File), exitFailed)
	}
	return nil
}

// open opens the file. What cannot be read twice is copied first.
func (c *telemetryCheckCmd) open(stdin io.Reader) (*os.File, error) {
	var src io.Reader = stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, usage(err)
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, nil
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, usage(fmt.Errorf("%s is a folder: name one file", c.File))
		}
		src = f
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
		return nil, fmt.Errorf("read %s: %w", c.File, err)
	}
	return f, nil
}

// checkTelemetry writes one line for each record of f, or one line alone if f cannot be read as events.
func checkTelemetry(ctx context.Context, f *os.File, out io.Writer, o telemetry.Options) (accepted, refused int, err error) {
	var line []byte
	layout, err := telemetry.Survey(f, o)
	var unreadable *telemetry.DocumentError
	if errors.As(err, &unreadable) {
		line = appendRejection([]byte(`{`), unreadable.Code, unreadable.Message)
		_, err = out.Write(line)
		return 0, 1, err
	}
	if err != nil {
		return 0, 0, err
	}
	d := layout.Decoder(f, o)
	for ctx.Err() == nil {
		r, err := d.Next()
		if err == io.EOF {
			return accepted, refused, nil
		}
		if err != nil {
			return accepted, refused, fmt.Errorf("the file changed while it was read: %w", err)
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
			return accepted, refused, err
		}
	}
	return accepted, refused, ctx.Err()
}

func appendRejection(line []byte, code telemetry.Code, message string) []byte {
	line = append(line, `"verdict":"reject","code":`...)
	line = telemetry.AppendString(line, string(code))
	line = append(line, `,"message":`...)
	return append(telemetry.AppendString(line, message), '}', '\n')
}
