package parca

import (
	"bytes"

	"github.com/apache/arrow/go/v17/arrow"
	arrowarray "github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// StacktraceIDs answers a record of samples of schema v1: an IPC stream that asks for the locations of all its stacks.
// What is wrong with the record gives an *[Error].
func StacktraceIDs(samples []byte) (answer []byte, err error) {
	var m uploadMemory
	m.begin(len(samples))
	builder := arrowarray.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	defer builder.Release()
	seen := map[[16]byte]bool{}
	err = eachStackID(&m, samples, func(id [16]byte) {
		if !seen[id] && len(seen) < maxAskedIDs {
			seen[id] = true
			builder.Append(id[:])
		}
	})
	if err != nil {
		return nil, err
	}
	ids := builder.NewArray()
	defer ids.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "stacktrace_id", Type: arrow.BinaryTypes.Binary}}, nil)
	record := arrowarray.NewRecord(schema, []arrow.Array{ids}, int64(ids.Len()))
	defer record.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(record); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// eachStackID calls fn for the ids of stacks in one IPC stream, once for each run of equal ones.
func eachStackID(m *uploadMemory, stream []byte, fn func(id [16]byte)) error {
	s, err := openStream(m, stream)
	if err != nil {
		return err
	}
	for {
		cols, n, ok, err := s.record()
		if err != nil || !ok {
			return err
		}
		ids := column(cols, "stacktrace_id")
		if ids == nil {
			return &Error{Code: CodeSchema, Detail: "the record has no column stacktrace_id"}
		}
		r, err := asRuns(ids, n)
		if err != nil {
			return err
		}
		for i := range r.n {
			id, ok, err := stackIDAt(r.values, i)
			if err != nil {
				return err
			}
			if ok {
				fn(id)
			}
		}
	}
}
