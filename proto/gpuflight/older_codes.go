package gpuflight

import "strconv"

// Words that older lines have where batches have codes; a word's place is its code.
var (
	olderSyncTypes = [][]string{
		{"unknown"}, {"event", "eventsynchronize"}, {"streamwaitevent", "streamwait"}, {"stream", "streamsynchronize"},
		{"context", "contextsynchronize"},
	}
	olderMemoryOps   = [][]string{{"unknown"}, {"alloc", "allocation", "allocate", "malloc"}, {"free", "release", "dealloc", "deallocation"}}
	olderMemoryKinds = [][]string{{"unknown"}, {"pageable"}, {"pinned"}, {"device"}, {"array"}, {"managed"}, {"devicestatic"},
		{"managedstatic"}}
)

// codeOf returns the code of a word, or code where there is no word. A word that the table lacks is 0, unknown.
func codeOf(word []byte, code uint8, table [][]string) uint8 {
	if len(word) == 0 {
		return code
	}
	var buf [maxWord]byte
	plain := plainWord(buf[:0], word)
	for i, words := range table {
		for _, w := range words {
			if w == string(plain) {
				return uint8(i)
			}
		}
	}
	return 0
}

// maxWord bounds the words that are looked up; a longer one is none of them.
const maxWord = 40

// plainWord appends the letters and digits of a word in lower case: HOST_TO_DEVICE and "Host to Device" are one word.
func plainWord(dst, word []byte) []byte {
	for _, c := range word {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			if len(dst) == maxWord {
				return nil
			}
			dst = append(dst, c)
		}
	}
	return dst
}

// CopyKindText returns the copy_kind of a memcpy_event in the words that CopyKind has: HtoD for "Host to Device", "H2D" and the like. Text
// that is plainly none of the known kinds is returned as it is, with known false. It does not depend on the vendor.
func CopyKindText(text []byte) (kind string, known bool) {
	var buf [maxWord]byte
	word := plainWord(buf[:0], text)
	for _, prefix := range [...]string{"cuda", "hip", "cumemcpykind", "memcpykind", "memcpy"} {
		if len(word) > len(prefix) && string(word[:len(prefix)]) == prefix {
			word = word[len(prefix):]
		}
	}
	from, rest := copyEnd(word)
	for _, between := range [...]string{"to", "2"} {
		if from != 0 && len(rest) > len(between) && string(rest[:len(between)]) == between {
			if to, rest := copyEnd(rest[len(between):]); to != 0 && len(rest) == 0 {
				for _, known := range copyKindsNVIDIA {
					if len(known) == 4 && known[0] == from && known[3] == to {
						return known, true
					}
				}
			}
		}
	}
	return string(text), false
}

// copyEnd reads one end of a copy: h or host, d or device, a or array, p or peer.
func copyEnd(word []byte) (end byte, rest []byte) {
	for _, w := range [...]string{"host", "device", "array", "peer"} {
		if len(word) >= len(w) && string(word[:len(w)]) == w {
			return w[0] - ('a' - 'A'), word[len(w):]
		}
	}
	if len(word) > 0 && (word[0] == 'h' || word[0] == 'd' || word[0] == 'a' || word[0] == 'p') {
		return word[0] - ('a' - 'A'), word[1:]
	}
	return 0, word
}

// legacyStalls are the reasons of the CUPTI activity interface, by its number. Unlike today's indices these never differed between devices.
var legacyStalls = [...]string{
	"INVALID", "NONE", "INST_FETCH", "EXEC_DEPENDENCY", "MEM_DEPENDENCY", "TEXTURE", "SYNC", "CONST_MEM_DEPENDENCY", "PIPE_BUSY",
	"MEM_THROTTLE", "NOT_SELECTED", "OTHER", "SLEEPING",
}

// LegacyStall returns the name of a stall reason that came as a number without a name, in the spelling of clients that wrote the name:
// MEM_DEPENDENCY for 4. A number beyond the table is Stall_<n>.
func LegacyStall(code uint32) string {
	if int64(code) < int64(len(legacyStalls)) {
		return legacyStalls[code]
	}
	return "Stall_" + strconv.FormatUint(uint64(code), 10)
}
