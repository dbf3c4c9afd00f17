package report

import (
	"testing"
)

// What a report shows of a session's id tells it from others.
func TestShortIDs(t *testing.T) {
	for id, want := range map[string]string{
		"fa3a65b5-560d-4f0e-965c-9c772b615472":     "fa3a65b5",
		"mem:fa3a65b5-560d-4f0e-965c-9c772b615472": "mem:fa3a65b5",
		"mem:gpu-node-1-rack-2:77:job:0":           "mem:gpu-no…job:0",
		"train-2026-11-22-run-7":                   "train-2026…run-7",
		"short":                                    "short",
	} {
		if got := short(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
