package engine

import "testing"

// All tenants together, each with its largest question, and the reader cannot take the memory that the writer inserts with.
func TestQuestionsLeaveTheWriterMemory(t *testing.T) {
	for _, limit := range []int64{512 << 20, defaultMemoryLimit, 10 << 30, 100 << 30} {
		slots, reader := boundsOfSlots(limit).Memory*SlotQuestions, readerBounds(limit).UserMemory
		if left := limit + connectionRoom - slots - reader; left < connectionRoom || left < 256<<20 {
			t.Errorf("of %d bytes %d are left", limit, left)
		}
	}
}
