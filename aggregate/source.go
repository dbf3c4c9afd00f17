package aggregate

import (
	"time"

	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/stream"
)

// Source is one kind of telemetry in this stage. Workers get theirs by Config.Sources; which one folds a part follows from the kind in the
// part's envelope.
type Source struct {
	// Name of its section in the state of sessions, and Version of what is in it. A name stays as it is for ever. To change what is
	// written, change the version, and go on reading the earlier ones.
	Name    string
	Version uint64
	// Kinds of the parts that it folds.
	Kinds []stream.Kind
	// Resends is within which time of each other equal parts are received, when all of them are remembered for that long. 0: they may come
	// at any time, and the newest 4096 of a session are remembered.
	Resends time.Duration
	// Reasons are the reasons of rejects that are its own, for their metrics.
	Reasons []string
	// Open makes what folds its parts in one partition.
	Open func(*Fold) Folding
}

// Folding is a source at work in one partition. Only the partition's owner calls it.
type Folding interface {
	// New makes what the source keeps of a session: when its first part comes, or when the session is read from a state.
	New(*Session) State
	// Fold folds a part into rows and into what New made of its session. Every event of it is received once, and then stored, rejected or a
	// duplicate.
	Fold(s State, p *Part, body []byte)
	// Tick does what is due by time alone. now is the owner's clock in nanoseconds.
	Tick(now int64)
}

// State is what a source keeps of one session. What decides later rows has to be in what Append writes.
type State interface {
	// Flush turns what the open chunk has added up into rows. Rows that may be held back are made when all is true, or when they are too
	// many to be held back.
	Flush(all bool)
	// Dense reports whether what is held back adds up enough events to be worth its rows.
	Dense() bool
	// Append writes the section: all that is kept, or what has changed since Published. Size estimates its bytes; 0 is nothing kept.
	Append(w *state.Writer, full bool)
	Size(full bool) int
	// Read adds what Append wrote under a version of the source, this one or an earlier one.
	Read(version uint64, r *state.Reader)
	// Published says that what has changed is part of the log now.
	Published()
	// Resume is called once all of a state is read: waiting times start from now, by this owner's clock, or go on if now is 0. When anew is
	// true the state was made again from parts whose rows are published: what rows refer to by ids is written again under new ones.
	Resume(now int64, anew bool)
	// Load says what is kept.
	Load() Load
	// Rest frees memory whose content can be loaded again; silent says that the session has been silent for long.
	Rest(silent bool)
	// Close makes rows of all that waits for another half: the session has ended.
	Close()
	// Drop is called for a session that is forgotten or deleted: from now on nothing of it may write rows.
	Drop()
}

// Load is how much sources keep of a session, for the partition's bounds.
type Load struct {
	Rollups int  // rows of rollups that are held back
	Waiting int  // bytes of what waits for another half
	Index   int  // bytes of what is kept to find names quickly
	Waits   bool // something waits that time gives up on
	Unsaid  bool // Close would write rows that need names
	Alone   bool // Close would write rows that do not need names
	Keep    int  // for how many times Config.Forget the session has to be remembered, 0: once
}

func (l *Load) add(m Load) {
	l.Rollups += m.Rollups
	l.Waiting += m.Waiting
	l.Index += m.Index
	l.Waits, l.Unsaid, l.Alone = l.Waits || m.Waits, l.Unsaid || m.Unsaid, l.Alone || m.Alone
	l.Keep = max(l.Keep, m.Keep)
}

// load adds up what all sources keep of the session.
func (s *Session) load() (l Load) {
	for _, st := range s.states {
		if st != nil {
			l.add(st.Load())
		}
	}
	return l
}

// opened is a source at work in this partition.
type opened struct {
	Source
	folding Folding
}

// open opens the sources, once.
func (f *Fold) open() {
	for _, src := range f.Config.Sources {
		for _, kind := range src.Kinds {
			f.kinds[kind] = len(f.sources)
		}
		f.sources = append(f.sources, opened{src, src.Open(f)})
	}
}

// stateOf returns what a source keeps of the session.
func (f *Fold) stateOf(s *Session, source int) State {
	if s.states == nil {
		s.states = make([]State, len(f.sources))
	}
	if s.states[source] == nil {
		s.states[source] = f.sources[source].folding.New(s)
	}
	return s.states[source]
}

// State returns what a source keeps of the session, nil when it keeps nothing.
func (f *Fold) State(s *Session, source string) State {
	for i := range s.states {
		if f.sources[i].Name == source {
			return s.states[i]
		}
	}
	return nil
}
