package aggregate

// Layouts of the state that ever landed. From version 4 on a number is one layout: whoever changes what is written changes stateVersion,
// adds the layout here and a fixture to testdata/state. Before, the number stayed while the layout changed: those are told apart by which
// one the bytes fit from the first to the last, the newest first.

// layout is what a state holds beside what every one has.
type layout uint16

const (
	hasTombstones layout = 1 << iota // of forgotten sessions, and launch ids
	hasHeld                          // rollups that wait
	hasMinutes
	hasSingles
	hasClock
	hasScopes // halves and ended scopes, instead of open ones by path
	hasArtifacts
	hasDeletions
	hasShort     // half hashes of silent sessions
	hasEventKeys // what memory events were counted
	hasSections  // of the sources, by name

	layout3   = hasTombstones | hasHeld | hasMinutes | hasSingles | hasClock | hasScopes | hasArtifacts | hasDeletions
	layout4   = layout3 | hasShort
	layout5   = layout4 | hasEventKeys
	layoutNow = layout5 | hasSections
)

// layouts are those of a version, the newest first.
var layouts = map[uint64][]layout{
	1: {hasHeld, 0},
	2: {hasTombstones | hasHeld},
	3: {
		layout3,
		layout3 &^ hasArtifacts,
		layout3 &^ (hasArtifacts | hasDeletions),
		layout3 &^ (hasArtifacts | hasDeletions | hasSingles),
		layout3 &^ (hasArtifacts | hasDeletions | hasSingles | hasScopes),
		layout3 &^ (hasArtifacts | hasDeletions | hasClock | hasScopes), // 81e88a7
		layout3 &^ (hasArtifacts | hasDeletions | hasSingles | hasClock | hasScopes),
	},
	4:            {layout4},
	5:            {layout5},
	stateVersion: {layoutNow},
}

// has reports whether the state that is read holds it.
func (r *reader) has(l layout) bool { return r.layout&l != 0 }
