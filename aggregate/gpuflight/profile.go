package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
)

// profileBatch folds one profile_sample_batch.
func (f *folding) profileBatch(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	for r := range batch.Rows() {
		row := batch.Row(r)
		key := activity.SampleKey{
			Kind: uint8(row[gpuflight.ProfileSampleKind]), Device: int32(row[gpuflight.ProfileDeviceID]),
			Function: uint32(row[gpuflight.ProfileFunctionID]), Metric: uint32(row[gpuflight.ProfileMetricID]),
			Scope: uint32(row[gpuflight.ProfileScopeNameID]),
			File:  uint32(row[gpuflight.ProfileSourceFileID]), Line: uint32(row[gpuflight.ProfileSourceLine]),
			PC: uint64(row[gpuflight.ProfilePCOffset]),
		}
		switch key.Kind {
		case activity.SamplePC, activity.SampleSASS:
			at, ok := batch.Time(r)
			if !ok {
				f.badTime(s, p, line)
				continue
			}
			s.Delta.SawEvent(at) // the time of arrival is not a time of the session
			if at < rows.PlausibleEpoch {
				at = p.Env.ReceivedAt // the legacy path writes 0, AMD its own clock
			}
			key.Bucket = rows.BucketOf(at)
		case activity.SampleSourceMap:
		default:
			f.rejectRow(s, p, line, gpuflight.ReasonBadValue, "sample_kind is not one of 0 to 2", nil)
			continue
		}
		value := uint64(row[gpuflight.ProfileMetricValue])
		if key.Kind == activity.SamplePC {
			if key.Metric == 0 {
				key.Metric = f.legacyStall(s, p, uint32(row[gpuflight.ProfileStallReason]))
			}
			s.Delta.Samples += value
		}
		s.profile.Add(key, value)
	}
}
