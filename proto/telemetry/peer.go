package telemetry

import (
	"fmt"
	"strings"
)

// Peer is a release of stormlog, whose judgement is asked for. The zero value is the newest.
type Peer uint8

// Releases that judge differently. Those between them judge as one of the two, except 0.3.0 to 0.3.9, which do not know version 4.
const (
	Peer043 Peer = iota // records of versions 1 to 4; what it accepts becomes version 4
	Peer029             // records of versions 1 and 2; what it accepts becomes version 2
)

// Peers are the names that ParsePeer knows, the newest first.
func Peers() []string { return []string{"0.4.3", "0.2.9"} }

// ParsePeer reads the name of a release; "" is the newest. The error says which there are.
func ParsePeer(name string) (Peer, error) {
	switch name {
	case "", "0.4.3":
		return Peer043, nil
	case "0.2.9":
		return Peer029, nil
	}
	return 0, fmt.Errorf("must be %s", strings.Join(Peers(), " or "))
}

// String returns the release.
func (p Peer) String() string { return Peers()[min(int(p), len(Peers())-1)] }

// Divergence is a place where Warpline differs from the peer on purpose.
type Divergence struct {
	// Code is what a record is refused with; "" if the verdict is the same.
	Code Code
	// What it is about, what the peer does and what happens here.
	What, Peer, Here string
}

// Divergences lists them all. Everything else is as the peer does it.
func Divergences() []Divergence {
	return []Divergence{
		{IntegerRange, "an integer field beyond 64 bits (below -2^63 or from 2^63 on)",
			"takes it",
			"refuses the record, after every rule of the peer has passed: no column could hold it. Integers inside metadata may be of any size"},
		{NonASCIIDigits, `a legacy "device" that ends in decimal digits of another script, as cuda:\u0663`,
			"reads them as a number",
			"refuses the record instead of guessing the device; superscripts and the like are refused by both, in the same words"},
		{RecordTooLarge, "a record longer than Options.MaxRecordBytes",
			"takes it",
			"refuses the record without holding it in memory"},
		{TooDeep, "a record nested deeper than MaxDepth",
			"takes up to some 990 levels, then ends with RecursionError and loses the file",
			"refuses the record; its neighbours are read. A document deeper than 2^20 levels ends"},
		{IntegerTooLong, "an integer of more than MaxDigits digits",
			"loses the file",
			"refuses the record in the peer's words; its neighbours are read"},
		{BadUTF8, "bytes that are not UTF-8 inside a record",
			"loses the file",
			"refuses the record in the peer's words; its neighbours are read"},
		{"", "a file with records that are refused",
			"loses the file and does not say which record it was",
			"each record has its own verdict"},
		{"", "a record that names no session, with half a surrogate pair in its host",
			"cannot spell it in UTF-8 when it makes up a session_id, and ends with UnicodeEncodeError",
			"spells it in three bytes, as it would any other character"},
		{"", "metadata.sampling_source that is a list or an object of more than 1024 bytes, where memory_capabilities are inferred",
			"takes Python's repr of it for the capability's text",
			"takes its JSON"},
		{"", "where a line of a JSON-lines file ends",
			"at every character at which Python splits lines, U+2028 inside a string among them, and loses the file",
			"at a line feed"},
		{"", "a file with several sessions",
			"returns one of them",
			"returns all"},
		{"", "a CSV export: metadata that is a Python literal, an empty metadata or rank, digits of a number that is written as a float",
			"takes {} for the literal, loses the row, and rounds",
			"reads the literal, takes what is empty for nothing, and keeps the digits"},
		{"", "the white space around text in the cells of a CSV export",
			"takes it away, so that the same event of the JSON export is another",
			"keeps it; around numbers and metadata it means nothing to either"},
		{"", "how numbers inside metadata are spelled",
			"prints them anew: 1E2 becomes 100.0, 1e999 Infinity, -0 0",
			"keeps them as they were sent"},
	}
}
