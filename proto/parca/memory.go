package parca

// Bounds of one upload. They are constants: whether an upload is taken, and how it is cut, must follow from its bytes alone.
const (
	maxRows        = 4 << 20   // rows of one upload
	maxFrames      = 1024      // frames of one stack, the innermost
	maxText        = 4 << 10   // bytes of one text; longer ones are cut at a character
	maxFields      = 1 << 16   // columns of one schema, nested ones too
	maxDepth       = 16        // of nested columns
	budgetBase     = 24 << 20  // bytes of memory for an upload of no size
	budgetPerByte  = 16        // and this many more for each of its bytes
	budgetMost     = 256 << 20 // and never more
	keptBetween    = 8 << 20   // bytes of buffers that a Batch keeps for its next upload
	bytesPerRow    = 40        // of memory, what a row costs the budget
	blockBytes     = 256 << 10
	maxDictionary  = 4 << 20 // entries
	maxRecordCount = 1 << 17 // messages of one IPC stream, a dictionary is one
)

// uploadMemory is what one upload may still allocate, and the blocks that its decompressed buffers are in.
type uploadMemory struct {
	left   int
	blocks [][]byte
	used   []int
}

// begin starts an upload of n bytes.
func (m *uploadMemory) begin(n int) {
	m.left = min(budgetBase+budgetPerByte*n, budgetMost)
	kept := 0
	keep := m.blocks[:0]
	for _, b := range m.blocks {
		if kept+len(b) <= keptBetween {
			kept += len(b)
			keep = append(keep, b)
		}
	}
	clear(m.blocks[len(keep):])
	m.blocks = keep
	m.used = m.used[:0]
	for range keep {
		m.used = append(m.used, 0)
	}
	m.left -= kept
}

// take says whether n more bytes may be allocated, and counts them.
func (m *uploadMemory) take(n int) error {
	if n < 0 || n > m.left {
		return &Error{Code: CodeTooLarge,
			Detail: "decoding it would take more memory than an upload of its size may have; send smaller batches"}
	}
	m.left -= n
	return nil
}

// bytes gives n bytes that stay until the next upload begins.
func (m *uploadMemory) bytes(n int) ([]byte, error) {
	for i, b := range m.blocks {
		if len(b)-m.used[i] >= n {
			from := m.used[i]
			m.used[i] += n
			return b[from : from+n : from+n], nil
		}
	}
	size := max(n, blockBytes)
	if err := m.take(size); err != nil {
		return nil, err
	}
	m.blocks = append(m.blocks, make([]byte, size))
	m.used = append(m.used, n)
	return m.blocks[len(m.blocks)-1][:n:n], nil
}

// grown returns s with room for n more, of the given size each, counted.
func grown[T any](m *uploadMemory, s []T, n, size int) ([]T, error) {
	if cap(s)-len(s) >= n {
		return s, nil
	}
	want := max(len(s)+n, 2*len(s), 16)
	if err := m.take(want * size); err != nil {
		return s, err
	}
	t := make([]T, len(s), want)
	copy(t, s)
	return t, nil
}
