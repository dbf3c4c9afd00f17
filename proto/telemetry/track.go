package telemetry

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/warpline/warpline/proto/jsonscan"
)

// MaxTrackSamples is how many samples a TensorFlow tracker's file may have that has no events: both of its lists are held at once.
const MaxTrackSamples = 500_000

// maxTrackAlerts is how many bytes of a file's list of alerts are read; of a longer one nothing is.
const maxTrackAlerts = 32 << 20

// Track gives the samples of a TensorFlow or JAX tracker's file that has no list of events, only the lists memory_usage (MiB) and
// timestamps (seconds): a legacy record of type sample for each pair, and then one of type warning for each of its alerts. Not safe for
// concurrent use.
type Track struct {
	v       Validator
	o       Options
	usage   []float64 // NaN for what is not a number
	times   []float64
	text    []byte
	event   Event
	rec     Record
	index   int
	samples int
	alerts  []byte // the list, from the next alert on
}

// NewTrack reads the lists of a document that is well-formed JSON (Survey has said so). The error is a *DocumentError if it has no
// list memory_usage, or too long ones, or else the reader's.
func NewTrack(r io.Reader, o Options) (*Track, error) {
	t := &Track{o: o}
	if err := t.read(bufio.NewReaderSize(r, 64<<10)); err != nil {
		return nil, err
	}
	t.samples = max(len(t.usage), len(t.times))
	return t, nil
}

// read walks through the members of the top-level object. All others are passed over without being kept.
func (t *Track) read(in *bufio.Reader) error {
	var key, token []byte
	var list *[]float64
	depth, inString, escaped, keyed, found := 0, false, false, false, false
	bad, alerting := false, false
	for {
		c, err := in.ReadByte()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if alerting {
			t.alerts = append(t.alerts, c)
			if len(t.alerts) > maxTrackAlerts {
				alerting, t.alerts = false, nil
			}
		}
		if inString {
			switch {
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '"':
				inString = false
				continue
			}
			if depth == 1 && !keyed && len(key) < 64 {
				key = append(key, c)
			}
			continue
		}
		switch c {
		case '"':
			inString = true
			bad = true
			if depth == 1 && !keyed {
				key = key[:0]
			}
		case ':':
			keyed = keyed || depth == 1
		case '{', '[':
			depth++
			if depth == 2 && c == '[' && keyed {
				switch string(key) {
				case "memory_usage":
					list, found = &t.usage, true
				case "timestamps":
					list = &t.times
				case "alerts":
					alerting, t.alerts = true, append(t.alerts[:0], c)
				}
				if list != nil {
					*list, token, bad = (*list)[:0], token[:0], false
				}
			} else {
				bad = true
			}
		case ',', ']', '}':
			if depth == 2 && list != nil && (len(token) > 0 || bad) {
				f := math.NaN()
				if n, err := strconv.ParseFloat(string(token), 64); !bad && (err == nil || math.IsInf(n, 0)) {
					f = n
				}
				if *list = append(*list, f); len(*list) > MaxTrackSamples {
					return &DocumentError{RecordTooLarge, fmt.Sprintf("more than %d samples without events", MaxTrackSamples)}
				}
				token, bad = token[:0], false
			}
			if c == ',' {
				keyed = keyed && depth != 1
				continue
			}
			depth--
			if depth == 1 {
				list, alerting = nil, false
			}
		case ' ', '\t', '\r', '\n':
		default:
			if depth == 2 && list != nil {
				token = append(token, c)
				if len(token) > MaxDigits {
					bad, token = true, token[:1]
				}
			}
		}
	}
	if !found { // a list of times alone is some other tool's: its every time would be refused
		return &DocumentError{NoEvents, "JSON payload does not contain telemetry events"}
	}
	return nil
}

// Next returns the next sample; see Decoder.Next.
func (t *Track) Next() (*Record, error) {
	i := t.index
	if i >= t.samples {
		return t.alert()
	}
	t.index++
	dst := append(t.text[:0], '{')
	if i < len(t.times) {
		dst = appendNumber(append(dst, `"timestamp":`...), t.times[i])
		dst = append(dst, ',')
	}
	usage := math.NaN() // a time without a value is refused, not taken for 0 bytes
	if i < len(t.usage) {
		usage = t.usage[i]
	}
	dst = appendNumber(append(dst, `"memory_mb":`...), usage)
	t.text = append(dst, `,"type":"sample"}`...)
	t.rec = Record{Index: i, Event: &t.event, Raw: t.text, Size: int64(len(t.text))}
	if r := t.v.Event(&t.event, t.text, &t.o); r != nil {
		t.rec.Event, t.rec.Refusal = nil, r
	}
	return &t.rec, nil
}

// alert returns the next alert as a record. What is not an object is passed over: a JAX tracker's alerts are only counted.
func (t *Track) alert() (*Record, error) {
	for len(t.alerts) > 0 {
		i := jsonscan.Space(t.alerts, 1) // a bracket or a comma
		if i >= len(t.alerts) || t.alerts[i] == ']' {
			break
		}
		v, ok := scanValue(t.alerts, i)
		if !ok {
			break
		}
		text := t.alerts[v.start:v.end]
		t.alerts = t.alerts[jsonscan.Space(t.alerts, int(v.end)):]
		if v.kind != kObject {
			continue
		}
		dst, timed := append(t.text[:0], `{"type":"warning"`...), false
		members(text, func(key []byte, _ bool, m token) {
			raw := text[m.start:m.end]
			switch string(key) {
			case "timestamp", "memory_mb", "message":
				timed = timed || string(key) == "timestamp"
				dst = append(append(append(dst, ',', '"'), key...), '"', ':')
				dst = append(dst, raw...)
			case "threshold_mb":
				dst = append(append(dst, `,"metadata_threshold_mb":`...), raw...)
			}
		})
		if !timed {
			continue // not an alert of a tracker
		}
		t.text = append(dst, '}')
		t.rec = Record{Index: t.index, Event: &t.event, Raw: t.text, Size: int64(len(t.text))}
		t.index++
		if r := t.v.Event(&t.event, t.text, &t.o); r != nil {
			t.rec.Event, t.rec.Refusal = nil, r
		}
		return &t.rec, nil
	}
	t.alerts = nil
	return nil, io.EOF
}

func appendNumber(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 0):
		return append(dst, infinity(f)...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

func infinity(f float64) string {
	if f < 0 {
		return "-Infinity"
	}
	return "Infinity"
}
