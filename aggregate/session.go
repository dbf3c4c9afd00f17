package aggregate

import (
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/gpuflight"
)

// Bounds of what one session may hold in a worker's memory. Each says what happens beyond it.
const (
	// maxParts: 4096 parts are 4 GiB of raw input; an older part that comes again is caught by the gateway's record or by its lines.
	maxParts = 4096
	// maxLines: 65 536 batches of 2 048 rows are 134 M rows; the oldest are forgotten first. 1 MiB of hashes.
	maxLines = 65536
	// maxWaiting kernels wait for their kernel_detail; beyond it rows go out without one (the detail is joined at read).
	maxWaiting = 16384
	// maxEarly details wait for their kernel row; beyond it they go out to kernel_details.
	maxEarly = 16384
	// maxConfigs launch configurations are told apart; beyond it they are forgotten and written again under new ids.
	maxConfigs = 65536
	// maxNames dictionary entries of a session; one beyond it is a reject dictionary_full.
	maxNames = 200_000
	// maxNameBytes cuts a longer name (call stacks can be long) and marks the cut.
	maxNameBytes = 32 << 10
	// maxNameTotal bytes of all names of a session; one beyond it is the same reject. How many are in memory is bounded by names.go.
	maxNameTotal = 128 << 20
	// maxUnresolved ids that were used before their name came; beyond it every later name counts as late.
	maxUnresolved = 65536
)

// sessionKey names a session: the client's id counts only together with the tenant.
type sessionKey struct{ tenant, id string }

// numDicts is how many dictionaries the wire has.
const numDicts = 6

// nameRef is one dictionary id.
type nameRef struct {
	dict gpuflight.Dict
	id   uint32
}

// launchConfig is what a session remembers of a launch configuration that it has written.
type launchConfig struct {
	id    uint32
	scope int32 // index into session.scopeNames
}

// session is everything a partition's owner knows of one session. What decides later rows is part of the published state (see
// state.go); the accumulators at the end belong to the open chunk alone.
type session struct {
	key   sessionKey
	token string
	id    []byte // key.id, for comparing with wire bytes

	// Facts, published whole when the session is touched.
	source, app, host, ip                       string
	pid                                         uint32
	vendor                                      string
	deviceIDs                                   []int32 // from job_start; more than one means kernels' device is unknown
	completed, shutdown                         bool
	firstReceived, lastReceived, lastReceivedAt int64 // ns, gateway stamps; At: owner's clock when it was folded
	retentionDays, rollupDays                   uint16
	names                                       int    // dictionary entries ever accepted
	nextConfig, nextLaunch                      uint32 // last ids handed out, 0: none
	allLate                                     bool   // unresolved overflowed
	noRaw                                       bool   // the tenant keeps no raw rows
	clock                                       clock

	parts, lines recent
	singles      recent          // lines that identify themselves
	details      *roaring.Bitmap // corr ids whose kernel_detail was folded
	freshDetails []uint32

	configs      map[xxh3.Uint128]launchConfig
	configByID   map[uint32]int32 // scope of each
	freshConfigs []xxh3.Uint128
	launches     map[launchKey]uint32 // ids of those that this owner has written; not in the state
	scopeNames   []string             // [0] is ''
	scopeIndex   map[string]int32

	dicts           [numDicts]map[uint32]string
	dictsLoaded     bool
	refused         map[nameRef]uint64 // hashes of names that there was no room for
	nameBytes       int                // of all names
	nameCost        int                // of those in memory, with what they cost beside their bytes
	nameRoom        int                // what that may be, 0: no bound
	awaited         bool               // in folder.unnamed
	pendingCharged  int                // what folder.pending knows of
	charged         int                // what the worker's budget knows of
	slotCount       int                // of slots and sparse
	unresolved      map[nameRef]struct{}
	unresolvedDirty bool

	waiting    waiting
	early      map[uint32]earlyDetail // by corr id
	unwritten  int                    // of early
	earlyDirty bool
	scopes     openScopes

	artifactRows uint64 // instructions and source lines written

	keys eventKeys // of the memory events that were counted

	// Held rollup rows (hold.go): part of the state until they are flushed.
	dirty     []*kernelAcc // all accumulators that count something
	delta     sessionDelta
	minutes   minutes
	heldSince int64 // owner's clock when the first of them began to wait, 0: nothing waits
	flushed   bool  // in the open chunk: what was held is rows now

	// The open chunk's.
	touched  bool
	slots    []*kernelSlot
	sparse   map[uint32]*kernelSlot // kernel ids beyond denseKernels
	scopeAcc map[scopeAccKey]*scopeAcc
	profile  map[profileKey]*profileAcc
	hostAcc  map[int64]*hostAcc
	devAcc   map[deviceKey]*deviceAcc
	memory   map[memoryKey]*memoryAcc
}

func newSession(key sessionKey, token string) *session {
	return &session{
		key: key, token: token, id: []byte(key.id),
		parts: recent{limit: maxParts}, lines: recent{limit: maxLines}, singles: recent{limit: maxSingles},
		details: roaring.New(), scopeNames: []string{""}, scopeIndex: map[string]int32{"": 0},
	}
}

// sessionDelta is what has happened since the last row of `sessions`.
type sessionDelta struct {
	kernels, samples, events, bytes, rejects, duplicates uint64
	firstEvent, lastEvent                                int64 // 0: none
	startedAt, endedAt                                   int64
	endReason                                            string
	runID, kind, engine                                  string
	segment                                              int32
	hasSegment                                           bool
	crashed                                              bool
}

// sawEvent widens the session's event time. Times that are no epoch (AMD activity clocks) would spoil it, so only plausible ones count.
func (d *sessionDelta) sawEvent(ns int64) {
	if ns < plausibleEpoch {
		return
	}
	if d.firstEvent == 0 || ns < d.firstEvent {
		d.firstEvent = ns
	}
	d.lastEvent = max(d.lastEvent, ns)
}

// began notes when the session began; of several tellings the earliest counts, as in the table.
func (d *sessionDelta) began(ns int64) {
	if ns > 0 && (d.startedAt == 0 || ns < d.startedAt) {
		d.startedAt = ns
	}
}

// plausibleEpoch is 2001-09-09: 10^18 ns. AMD activity records and isa_source_map carry clocks that start at boot.
const plausibleEpoch = int64(1e18)

// maxTextBytes bounds client text that is part of the state: host names, applications, scope paths.
const maxTextBytes = 1024

// clip cuts text to maxTextBytes at a rune's border and marks the cut.
func clip(s string) string {
	if len(s) <= maxTextBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxTextBytes], "") + "…"
}

// device returns the device of kernels and copies, which carry none: the session's only one, or -1.
func (s *session) device() int32 {
	if len(s.deviceIDs) == 1 {
		return s.deviceIDs[0]
	}
	return -1
}

// maxScopeNames scope paths of a session are told apart in rollups; kernels in later ones count under otherScopes.
const (
	maxScopeNames = 65536
	otherScopes   = "(more scopes)"
)

// scope interns a scope path and returns its index.
func (s *session) scope(path string) int32 {
	path = clip(path)
	i, ok := s.scopeIndex[path]
	if !ok {
		if len(s.scopeNames) == maxScopeNames {
			path = otherScopes
		} else if len(s.scopeNames) > maxScopeNames {
			return maxScopeNames
		}
		i = int32(len(s.scopeNames))
		s.scopeNames = append(s.scopeNames, path)
		s.scopeIndex[path] = i
	}
	return i
}

// nameless reports whether the session has names that this owner has not loaded yet.
func (s *session) nameless() bool { return !s.dictsLoaded && s.names > 0 }

// name returns a dictionary text. An unknown id is remembered, so that its name is marked late when it comes.
func (s *session) name(dict gpuflight.Dict, id uint32) string {
	if id == 0 {
		return ""
	}
	if v, ok := s.dicts[dict][id]; ok {
		return v
	}
	if s.allLate {
		return ""
	}
	if _, ok := s.refused[nameRef{dict, id}]; ok {
		return "" // it is looked up at read
	}
	if s.unresolved == nil {
		s.unresolved = map[nameRef]struct{}{}
	}
	ref := nameRef{dict, id}
	if _, ok := s.unresolved[ref]; !ok {
		s.unresolvedDirty = true
		if len(s.unresolved) >= maxUnresolved {
			s.allLate, s.unresolved = true, nil
			return ""
		}
		s.unresolved[ref] = struct{}{}
	}
	return ""
}
