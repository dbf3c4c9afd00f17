package aggregate

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
)

// profileBatch folds one profile_sample_batch.
func (f *flight) profileBatch(s *flightSession, p *Part, line *gpuflight.Line) {
	batch := line.Batch
	for r := range batch.Rows() {
		row := batch.Row(r)
		key := profileKey{
			kind: uint8(row[gpuflight.ProfileSampleKind]), device: int32(row[gpuflight.ProfileDeviceID]),
			function: uint32(row[gpuflight.ProfileFunctionID]), metric: uint32(row[gpuflight.ProfileMetricID]), scope: uint32(row[gpuflight.ProfileScopeNameID]),
			file: uint32(row[gpuflight.ProfileSourceFileID]), line: uint32(row[gpuflight.ProfileSourceLine]), pc: uint64(row[gpuflight.ProfilePCOffset]),
		}
		switch key.kind {
		case sampleKindPC, sampleKindSASS:
			at, ok := batch.Time(r)
			if !ok {
				f.badTime(s, p, line)
				continue
			}
			s.Delta.SawEvent(at) // when it was received is no time of the session's
			if at < rows.PlausibleEpoch {
				at = p.Env.ReceivedAt // the legacy path writes 0, AMD its own clock
			}
			key.bucket = rows.BucketOf(at)
		case sampleKindSourceMap:
		default:
			f.rejectRow(s, p, line, gpuflight.ReasonBadValue, "sample_kind is none of 0 to 2", nil)
			continue
		}
		value := uint64(row[gpuflight.ProfileMetricValue])
		if key.kind == sampleKindPC {
			if key.metric == 0 {
				key.metric = f.legacyStall(s, p, uint32(row[gpuflight.ProfileStallReason]))
			}
			s.Delta.Samples += value
		}
		s.profile.add(key, value)
	}
}
