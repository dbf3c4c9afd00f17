package gpuflight

import "github.com/warpline/warpline/sink/table"

type capabilitiesTable struct {
	*table.Table
	table.Head
	At              table.TimeCol
	RequestedEngine table.DictCol
	SelectedEngine  table.DictCol
	Feature         table.DictCol
	Requested       table.U8Col
	Status          table.DictCol
	Mode            table.DictCol
	ReasonCode      table.DictCol
	Message         table.DictCol
	table.FactTail
}

// Capabilities holds what each session was asked to record and what it could, a row a feature.
var Capabilities = func() capabilitiesTable {
	t := table.Define("capture_capabilities_data", table.Fact, "tenant, session_id, feature")
	return capabilitiesTable{
		Table:           t,
		Head:            t.Head(),
		At:              t.Time("at"),
		RequestedEngine: t.Dict("requested_engine"),
		SelectedEngine:  t.Dict("selected_engine"),
		Feature:         t.Dict("feature"),
		Requested:       t.U8("requested"),
		Status:          t.Dict("status", table.Note("collected, partial, fallback, enabled_no_data, expected_no_data, skipped, not_requested")),
		Mode:            t.Dict("mode"),
		ReasonCode:      t.Dict("reason_code"),
		Message:         t.Dict("message"),
		FactTail:        t.FactTail(),
	}
}()
