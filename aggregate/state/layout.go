package state

// Version is the first number of every state change and snapshot.
const Version = 6

// Layouts of the state that main ever had. From version 4 on a number is one layout: to change what stands outside of the sections, change
// Version, add the layout here and a fixture to testdata/state. Before that the number stayed while the layout changed: the layout of those
// states is the newest one that fits the bytes from the first to the last.

// Layout is what a state holds in addition to what every state has.
type Layout uint16

// What layouts have, in the order in which it came.
const (
	HasTombstones Layout = 1 << iota // of forgotten sessions, and launch ids
	HasHeld                          // rollups that wait
	HasMinutes
	HasSingles
	HasClock
	HasScopes // halves and ended scopes, instead of open ones by path
	HasArtifacts
	HasDeletions
	hasShort     // half hashes of silent sessions
	HasEventKeys // what memory events were counted
	hasSections  // of the sources, by name

	layout3   = HasTombstones | HasHeld | HasMinutes | HasSingles | HasClock | HasScopes | HasArtifacts | HasDeletions
	layout4   = layout3 | hasShort
	layout5   = layout4 | HasEventKeys
	LayoutNow = layout5 | hasSections
)

// Layouts are those of a version, the newest first.
var Layouts = map[uint64][]Layout{
	1: {HasHeld, 0},
	2: {HasTombstones | HasHeld},
	3: {
		layout3,
		layout3 &^ HasArtifacts,
		layout3 &^ (HasArtifacts | HasDeletions),
		layout3 &^ (HasArtifacts | HasDeletions | HasSingles),
		layout3 &^ (HasArtifacts | HasDeletions | HasSingles | HasScopes),
		layout3 &^ (HasArtifacts | HasDeletions | HasClock | HasScopes), // 81e88a7
		layout3 &^ (HasArtifacts | HasDeletions | HasSingles | HasClock | HasScopes),
	},
	4:       {layout4},
	5:       {layout5},
	Version: {LayoutNow},
}

// Has reports whether the state that is read holds it.
func (r *Reader) Has(l Layout) bool { return r.Layout&l != 0 }
