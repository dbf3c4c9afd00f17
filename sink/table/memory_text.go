package table

import "fmt"

// collectiveSQL says whether a text names a collective operation, however it is spelled: case, '-' and '_' do not count.
func collectiveSQL(text string) string {
	return fmt.Sprintf("multiSearchAny(replaceAll(replaceAll(lower(%s), '-', ''), '_', ''), "+
		"['nccl', 'collective', 'communication', 'allreduce', 'allgather', 'reducescatter', 'broadcast', 'barrier'])", text)
}

// blanks are what Python's str.strip takes off both ends of a text, as a class of RE2.
const blanks = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+`

// trimmedSQL takes blanks off both ends of a text.
func trimmedSQL(text string) string {
	return fmt.Sprintf("replaceRegexpAll(%s, %s, '')", text, quote("^"+blanks+"|"+blanks+"$"))
}
