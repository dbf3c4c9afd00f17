package aggregate

import "time"

// After a takeover, names may be in neither of the two places from which they are loaded: their entries were lost with the bucket, or it
// was full, and ClickHouse does not answer, or does not have their rows yet. Folding does not wait for that. Rows are written without those
// names, and their ids are noted as if the name had not come yet. The names are looked for again, and written as late ones when they are
// found.

// missing is when the names of a session are looked for again.
type missing struct {
	next  time.Time
	tries int
}

const (
	missingEvery = 15 * time.Second
	missingTries = 240 // an hour; the next owner begins anew
	missingMost  = 8   // sessions are looked for at a time: nothing is folded while names are loaded
)

// missNames notes how many of a session's names were not found.
func (f *Fold) missNames(s *Session, n int, now time.Time) {
	if n <= 0 {
		delete(f.missing, s)
		return
	}
	f.missing[s] = missing{next: now.Add(missingEvery), tries: f.missing[s].tries + 1}
}

// seekMissing makes the names that were not found be loaded again, for sessions whose rows were written without them.
func (f *Fold) seekMissing(now time.Time) {
	sought := 0
	for s, m := range f.missing {
		if len(s.unresolved) == 0 || m.tries >= missingTries || now.Before(m.next) {
			continue
		}
		s.dictsLoaded = false // what it has it keeps
		f.AwaitNames(s)
		if sought++; sought == missingMost {
			return
		}
	}
}

// nameUsed writes a loaded name late when rows were written without it.
func (f *Fold) nameUsed(s *Session, ref NameRef, text string) {
	if _, used := s.unresolved[ref]; !used {
		return
	}
	s.resolved(ref)
	f.dictionaryRow(s, ref.Dict.String(), ref.ID, text, 1, s.LastReceived)
	f.Touch(s)
}

// nameAllUsed does so for all names that a session has at hand.
func (f *Fold) nameAllUsed(s *Session) {
	for ref := range s.unresolved {
		if text, ok := s.dicts[ref.Dict][ref.ID]; ok {
			f.nameUsed(s, ref, text)
		}
	}
}
