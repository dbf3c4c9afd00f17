package gpuflight

import "github.com/warpline/warpline/sink/table"

// CapabilityRow is a row of Capabilities.
type CapabilityRow struct {
	table.HeadRow
	At              int64
	RequestedEngine string
	SelectedEngine  string
	Feature         string
	Requested       uint8
	Status          string
	Mode            string
	ReasonCode      string
	Message         string
	ReceivedDay     int32
}

// Capabilities holds what each session was asked to record and what it could record, a row for each feature.
var Capabilities = table.DefineRows(table.Define("capture_capabilities_data", table.Fact, "tenant, session_id, feature").Few(),
	func(c *table.Binder[CapabilityRow], r *CapabilityRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.Dict("requested_engine", &r.RequestedEngine)
		c.Dict("selected_engine", &r.SelectedEngine)
		c.Dict("feature", &r.Feature)
		c.U8("requested", &r.Requested)
		c.Dict("status", &r.Status, table.Note("collected, partial, fallback, enabled_no_data, expected_no_data, skipped, not_requested"))
		c.Dict("mode", &r.Mode)
		c.Dict("reason_code", &r.ReasonCode)
		c.Dict("message", &r.Message)
		c.FactTail(&r.ReceivedDay)
	})
