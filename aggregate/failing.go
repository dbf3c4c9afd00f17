package aggregate

import (
	"slices"
	"time"
)

// Failure is a partition that this worker tries to take or fold, without success so far.
type Failure struct {
	Partition int
	Err       string
	Since     time.Time // of the first try since it last went well
	last      time.Time
}

// fails notes that a run of a partition ended with an error.
func (w *Worker) fails(p int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing == nil {
		w.failing = map[int]Failure{}
	}
	f, known := w.failing[p]
	if !known {
		f = Failure{Partition: p, Since: time.Now()}
	}
	f.Err, f.last = err.Error(), time.Now()
	w.failing[p] = f
}

// thrives notes that a chunk of the partition was stored: it does not fail any more.
func (w *Worker) thrives(p int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.failing, p)
}

// failures lists them in the order of their numbers, without those that have not failed again for a minute: another worker has the
// partition by now. w.mu is held.
func (w *Worker) failures() (all []Failure) {
	for p := range w.streams.Partitions {
		if f, ok := w.failing[p]; ok && time.Since(f.last) < time.Minute {
			all = append(all, f)
		}
	}
	return slices.Clip(all)
}
