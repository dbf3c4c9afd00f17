package aggregate

import (
	"strings"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// Kinds of profile samples on the wire.
const (
	sampleKindPC        = 0
	sampleKindSASS      = 1
	sampleKindSourceMap = 2 // isa_source_map: which line an instruction came from; its time is no epoch
)

// profileKey is what profile rows are added up by.
type profileKey struct {
	kind                    uint8
	device                  int32
	function, metric, scope uint32
	file, line              uint32
	pc                      uint64
	bucket                  int64 // 0 for the source map
}

type profileAcc struct{ value, hits uint64 }

// profileRollups adds up the samples of a session in the open chunk.
type profileRollups struct{ accs map[profileKey]*profileAcc }

// add counts a sample, of some weight.
func (p *profileRollups) add(key profileKey, value uint64) {
	a := p.accs[key]
	if a == nil {
		if p.accs == nil {
			p.accs = map[profileKey]*profileAcc{}
		}
		a = &profileAcc{}
		p.accs[key] = a
	}
	a.value += value
	a.hits++
}

// splitFunction parts "name@source_file" of the wire at the last '@'.
func splitFunction(v string) (name, file string) {
	if i := strings.LastIndexByte(v, '@'); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

// flush writes the session's buckets.
func (p *profileRollups) flush(f *Fold, s *Session) {
	for key, a := range p.accs {
		function, source := splitFunction(s.name(gpuflight.FunctionDict, key.function))
		file := s.name(gpuflight.SourceFileDict, key.file)
		if file == "" {
			file = source
		}
		metric := s.name(gpuflight.MetricDict, key.metric)
		metricID := key.metric
		if metric != "" {
			metricID = 0 // the name says it all; both would take twice the room
		}
		scope := s.name(gpuflight.ScopeNameDict, key.scope)
		part := s.FactPartition()
		switch key.kind {
		case sampleKindPC:
			t := &table.PCSamples
			b := f.Out.Batch(t.Table, part)
			t.Tenant.AppendString(b, s.Key.Tenant)
			t.SessionID.AppendString(b, s.Key.ID)
			t.Bucket.Append(b, key.bucket)
			t.BucketS.Append(b, 60)
			t.Cubin.AppendString(b, "")
			t.BuildID.AppendString(b, "")
			t.Function.AppendString(b, function)
			t.FunctionID.Append(b, key.function)
			t.PCOffset.Append(b, key.pc)
			t.StallReason.AppendString(b, metric)
			t.MetricID.Append(b, metricID)
			t.PeriodNS.Append(b, 0)
			t.Scope.AppendString(b, scope)
			t.ScopeID.Append(b, key.scope)
			t.DeviceID.Append(b, key.device)
			t.File.AppendString(b, file)
			t.FileID.Append(b, key.file)
			t.Line.Append(b, key.line)
			t.Samples.Append(b, a.value)
			t.GPUNS.Append(b, 0)
			t.Hits.Append(b, a.hits)
			t.ReceivedDay.Append(b, s.ReceivedDay())
		case sampleKindSASS:
			t := &table.ProfileMetrics
			b := f.Out.Batch(t.Table, part)
			t.Tenant.AppendString(b, s.Key.Tenant)
			t.SessionID.AppendString(b, s.Key.ID)
			t.Bucket.Append(b, key.bucket)
			t.BucketS.Append(b, 60)
			t.Function.AppendString(b, function)
			t.FunctionID.Append(b, key.function)
			t.PCOffset.Append(b, key.pc)
			t.MetricName.AppendString(b, metric)
			t.MetricID.Append(b, metricID)
			t.Scope.AppendString(b, scope)
			t.ScopeID.Append(b, key.scope)
			t.DeviceID.Append(b, key.device)
			t.File.AppendString(b, file)
			t.FileID.Append(b, key.file)
			t.Line.Append(b, key.line)
			t.MetricValue.Append(b, a.value)
			t.Hits.Append(b, a.hits)
			t.ReceivedDay.Append(b, s.ReceivedDay())
		case sampleKindSourceMap:
			t := &table.SourceMap
			b := f.Out.Batch(t.Table, part)
			t.Tenant.AppendString(b, s.Key.Tenant)
			t.SessionID.AppendString(b, s.Key.ID)
			t.Function.AppendString(b, function)
			t.FunctionID.Append(b, key.function)
			t.PCOffset.Append(b, key.pc)
			t.File.AppendString(b, file)
			t.FileID.Append(b, key.file)
			t.Line.Append(b, key.line)
			t.Hits.Append(b, a.hits)
			t.ReceivedDay.Append(b, s.ReceivedDay())
		}
	}
	clear(p.accs)
}
