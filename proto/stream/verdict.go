package stream

import "strconv"

// Verdict is what became of the parts in one partition whose sender asks for it: whether anything was refused. A worker keeps the newest
// few verdicts in each chunk's header, so they are as exact as the position there, and a successor has them.
type Verdict struct {
	// Asked names the question: Envelope.Asked of the parts.
	Asked  string `json:"asked"`
	Tenant string `json:"tenant"`
	// Since is the INGEST sequence of the first part that is counted. Parts before it may have been folded and forgotten.
	Since uint64 `json:"since"`
	// Touched is when the last part was counted, ns since the epoch.
	Touched int64  `json:"touched"`
	Parts   uint64 `json:"parts"`
	// Events = Stored + Duplicates + the events of Rejected.
	Events     uint64     `json:"events"`
	Stored     uint64     `json:"stored"`
	Duplicates uint64     `json:"duplicates,omitempty"`
	Rejected   []Rejected `json:"rejected,omitempty"`
}

// Rejected counts the events that were refused for one reason.
type Rejected struct {
	Reason string `json:"reason"`
	Events uint64 `json:"events"`
}

// AddRejected adds events to the reason's entry in list, which it may grow. Beyond limit reasons the rest is OtherReason.
func AddRejected(list []Rejected, reason string, events uint64, limit int) []Rejected {
	for i := range list {
		if list[i].Reason == reason {
			list[i].Events += events
			return list
		}
	}
	if len(list) >= limit && reason != OtherReason {
		return AddRejected(list, OtherReason, events, limit)
	}
	return append(list, Rejected{reason, events})
}

// OtherReason stands for the reasons beyond those that are counted one by one.
const OtherReason = "other"

// VerdictQuestion is what a gateway asks the owner of a partition, on VerdictSubject.
type VerdictQuestion struct {
	Asked string `json:"asked"`
}

// VerdictAnswer is the owner's answer, as of its last published chunk.
type VerdictAnswer struct {
	// Position is the INGEST sequence up to which the partition is folded; 0 while the owner is taking over.
	Position uint64 `json:"position"`
	// Verdict is nil when there is none, or when it was forgotten.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// VerdictSubject is where the owner of a partition answers questions. It is not a subject of a stream: nothing of it is stored.
func VerdictSubject(partition int) string { return "verdict." + strconv.Itoa(partition) }

// AskedBytes is the length of Envelope.Asked: 128 bits in hex.
const AskedBytes = 32
