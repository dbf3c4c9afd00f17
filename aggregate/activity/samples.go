package activity

import (
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// Kinds of profile samples on the wire.
const (
	SamplePC        = 0
	SampleSASS      = 1
	SampleSourceMap = 2 // isa_source_map: which line an instruction came from; its time does not count from 1970
)

// SampleKey is the key by which profile rows are added up.
type SampleKey struct {
	Kind                    uint8
	Device                  int32
	Function, Metric, Scope uint32
	File, Line              uint32
	PC                      uint64
	Bucket                  int64 // 0 for the source map
}

type profileAcc struct{ Value, hits uint64 }

// Samples adds up the samples of a session in the open chunk.
type Samples struct{ Accs map[SampleKey]*profileAcc }

// Add counts a sample, of some weight.
func (p *Samples) Add(key SampleKey, value uint64) {
	a := p.Accs[key]
	if a == nil {
		if p.Accs == nil {
			p.Accs = map[SampleKey]*profileAcc{}
		}
		a = &profileAcc{}
		p.Accs[key] = a
	}
	a.Value += value
	a.hits++
}

// SplitFunction splits "name@source_file" of the wire at the last '@'.
func SplitFunction(v string) (name, file string) {
	if i := strings.LastIndexByte(v, '@'); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

// Flush writes the session's buckets. What has table.MoreNames keeps the ids of functions, without which places mean nothing, and of
// counters, which cannot be added up with others.
func (p *Samples) Flush(f *aggregate.Fold, s *aggregate.Session) {
	for key, a := range p.Accs {
		function, source := SplitFunction(s.Name(gpuflight.FunctionDict, key.Function))
		file := s.Name(gpuflight.SourceFileDict, key.File)
		if file == "" {
			file = source
		}
		metric, metricID := s.SumName(gpuflight.MetricDict, key.Metric)
		if metricID == 0 && key.Kind == SampleSASS {
			metricID = key.Metric
		} else if metric != "" {
			metricID = 0 // the name is enough; both would take twice the room
		}
		scope, scopeID := s.SumName(gpuflight.ScopeNameDict, key.Scope)
		part := s.FactPartition()
		switch key.Kind {
		case SamplePC:
			t := &table.PCSamples
			b := f.Out.Batch(t.Table, part)
			t.Tenant.AppendString(b, s.Key.Tenant)
			t.SessionID.AppendString(b, s.Key.ID)
			t.Bucket.Append(b, key.Bucket)
			t.BucketS.Append(b, 60)
			t.Cubin.AppendString(b, "")
			t.BuildID.AppendString(b, "")
			t.Function.AppendString(b, function)
			t.FunctionID.Append(b, key.Function)
			t.PCOffset.Append(b, key.PC)
			t.StallReason.AppendString(b, metric)
			t.MetricID.Append(b, metricID)
			t.PeriodNS.Append(b, 0)
			t.Scope.AppendString(b, scope)
			t.ScopeID.Append(b, scopeID)
			t.DeviceID.Append(b, key.Device)
			t.File.AppendString(b, file)
			t.FileID.Append(b, key.File)
			t.Line.Append(b, key.Line)
			t.Samples.Append(b, a.Value)
			t.GPUNS.Append(b, 0)
			t.Hits.Append(b, a.hits)
			t.ReceivedDay.Append(b, s.ReceivedDay())
		case SampleSASS:
			t := &table.ProfileMetrics
			b := f.Out.Batch(t.Table, part)
			t.Tenant.AppendString(b, s.Key.Tenant)
			t.SessionID.AppendString(b, s.Key.ID)
			t.Bucket.Append(b, key.Bucket)
			t.BucketS.Append(b, 60)
			t.Function.AppendString(b, function)
			t.FunctionID.Append(b, key.Function)
			t.PCOffset.Append(b, key.PC)
			t.MetricName.AppendString(b, metric)
			t.MetricID.Append(b, metricID)
			t.Scope.AppendString(b, scope)
			t.ScopeID.Append(b, scopeID)
			t.DeviceID.Append(b, key.Device)
			t.File.AppendString(b, file)
			t.FileID.Append(b, key.File)
			t.Line.Append(b, key.Line)
			t.MetricValue.Append(b, a.Value)
			t.Hits.Append(b, a.hits)
			t.ReceivedDay.Append(b, s.ReceivedDay())
		case SampleSourceMap:
			t := &table.SourceMap
			b := f.Out.Batch(t.Table, part)
			t.Tenant.AppendString(b, s.Key.Tenant)
			t.SessionID.AppendString(b, s.Key.ID)
			t.Function.AppendString(b, function)
			t.FunctionID.Append(b, key.Function)
			t.PCOffset.Append(b, key.PC)
			t.File.AppendString(b, file)
			t.FileID.Append(b, key.File)
			t.Line.Append(b, key.Line)
			t.Hits.Append(b, a.hits)
			t.ReceivedDay.Append(b, s.ReceivedDay())
		}
	}
	clear(p.Accs)
}
