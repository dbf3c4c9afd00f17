package table

import "fmt"

// collectiveSQL says whether a text names a collective operation, however it is spelled: case, '-' and '_' do not count.
func collectiveSQL(text string) string {
	return fmt.Sprintf("multiSearchAny(replaceAll(replaceAll(lower(%s), '-', ''), '_', ''), "+
		"['nccl', 'collective', 'communication', 'allreduce', 'allgather', 'reducescatter', 'broadcast', 'barrier'])", text)
}
