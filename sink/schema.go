package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// insertSQL returns the statement for a stream with this schema message. The columns are those of the stream, not those of this build's
// table: a chunk of an older worker may lack one, and one of a newer worker must be refused rather than cut.
func insertSQL(database, tableName string, schema []byte) (string, error) {
	columns, err := columnNames(schema)
	if err != nil {
		return "", fmt.Errorf("schema message of %s: %w", tableName, err)
	}
	for i := range columns {
		columns[i] = name(columns[i])
	}
	return fmt.Sprintf("INSERT INTO %s.%s (%s)", name(database), name(tableName), strings.Join(columns, ", ")), nil
}

var inBackticks = strings.NewReplacer("\\", "\\\\", "`", "\\`")

// name quotes an identifier.
func name(s string) string { return "`" + inBackticks.Replace(s) + "`" }

var errSchema = errors.New("not an Arrow schema message")

// maxColumns is far more than any table has.
const maxColumns = 1000

// columnNames reads the field names out of an Arrow IPC schema message. Arrow's own reader allocates whatever a damaged message says, even
// terabytes; this one allocates only the names.
func columnNames(message []byte) ([]string, error) {
	if len(message) < 8 || binary.LittleEndian.Uint32(message) != 0xffffffff {
		return nil, errSchema
	}
	b := flat(message[8:])
	const typeSchema = 1
	root, ok1 := b.follow(0)
	kind, ok2 := b.field(root, 1)
	at, ok3 := b.field(root, 2)
	if !ok1 || !ok2 || !ok3 || b[kind] != typeSchema {
		return nil, errSchema
	}
	schema, ok1 := b.follow(at)
	at, ok2 = b.field(schema, 1)
	fields, n, ok3 := b.vector(at, 4)
	if !ok1 || !ok2 || !ok3 || n == 0 || n > maxColumns {
		return nil, errSchema
	}
	names := make([]string, 0, n)
	for i := range n {
		field, ok1 := b.follow(fields + 4*i)
		at, ok2 := b.field(field, 0)
		text, size, ok3 := b.vector(at, 1)
		if !ok1 || !ok2 || !ok3 || size == 0 {
			return nil, errSchema
		}
		names = append(names, string(b[text:text+size]))
	}
	return names, nil
}

// flat is a flatbuffer. Its methods take any positions, and return false for those outside of it.
type flat []byte

// u32 reads at most 31 bits, so that sums of positions do not overflow.
func (b flat) u32(at int) (int, bool) {
	if at < 0 || at+4 > len(b) {
		return 0, false
	}
	v := binary.LittleEndian.Uint32(b[at:])
	return int(v), v < 1<<31
}

func (b flat) u16(at int) (int, bool) {
	if at < 0 || at+2 > len(b) {
		return 0, false
	}
	return int(binary.LittleEndian.Uint16(b[at:])), true
}

// follow returns where the offset at a position leads.
func (b flat) follow(at int) (int, bool) {
	v, ok := b.u32(at)
	return at + v, ok && v > 0 && at+v+4 <= len(b)
}

// field returns where a table keeps its i-th field.
func (b flat) field(table, i int) (int, bool) {
	if table < 0 || table+4 > len(b) {
		return 0, false
	}
	vtable := table - int(int32(binary.LittleEndian.Uint32(b[table:])))
	size, ok := b.u16(vtable)
	if !ok || 4+2*i+2 > size {
		return 0, false
	}
	offset, ok := b.u16(vtable + 4 + 2*i)
	return table + offset, ok && offset > 0 && table+offset < len(b)
}

// vector returns the first element and the length of the vector or string whose offset is at a position.
func (b flat) vector(at, width int) (first, n int, ok bool) {
	v, ok1 := b.follow(at)
	n, ok2 := b.u32(v)
	return v + 4, n, ok1 && ok2 && n <= (len(b)-v-4)/width
}
