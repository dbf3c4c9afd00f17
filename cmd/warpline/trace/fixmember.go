package trace

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/warpline/warpline/proto/chrometrace"
)

// maxMembers is how many bytes of members beside the events are kept: Kineto writes some kB, about the devices and the job.
const maxMembers = 1 << 20

// member keeps a member of the trace, as JSON.
func (f *wholeFile) member(key string, value []byte) {
	switch key {
	case "traceEvents", "displayTimeUnit": // written anew
		return
	}
	if len(value) == 0 || len(f.members)+len(key)+len(value) > maxMembers {
		f.unkept++
		return
	}
	if value = quoteNaN(value); !json.Valid(value) {
		value = chrometrace.Mend(nil, value)
	}
	if !json.Valid(value) {
		f.unkept++
		return
	}
	f.members = append(append(append(append(f.members, ','), jsonText(key)...), ':'), value...)
}

// jsonText is a text as JSON.
func jsonText(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // no text fails
	}
	return b
}

// ofFile is a process or an id of one of several files.
func ofFile(number int, value []byte) []byte {
	return jsonText(strconv.Itoa(number) + ":" + plain(value))
}

// labelled are the arguments that name a process, with a label before the name.
func labelled(args []byte, label string) []byte {
	out, separator := []byte{}, byte('{')
	chrometrace.EachMember(args, func(key, value []byte) {
		if string(key) == `"name"` {
			value = jsonText(label + plain(value))
		}
		out = append(append(append(append(out, separator), key...), ':'), value...)
		separator = ','
	})
	if separator == '{' {
		return args
	}
	return append(out, '}')
}

// nameProcesses names those that have no name in their file, so that it is told where they are from.
func (w *chromeWriter) nameProcesses(f *wholeFile, number int, label string) {
	if label == "" {
		return
	}
	for i := range f.processes {
		p := &f.processes[i]
		if p.name != "" || p.pid == "" {
			continue
		}
		pid := []byte(p.raw)
		if number > 0 {
			pid = ofFile(number, []byte(p.raw))
		}
		w.between()
		fmt.Fprintf(w.out, `{"ph":"M","name":"process_name","pid":%s,"args":{"name":%s}}`, pid, jsonText(label+"process "+p.pid))
	}
}
