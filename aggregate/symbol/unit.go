package symbol

import "strings"

// unit is the header of one unit of the line table.
type unit struct {
	program, end          int // of the program, in .debug_line
	minLength, opcodeBase uint8
	lineRange             uint8
	lineBase              int8
	lengths               [256]uint8 // operands of standard instructions
	tables                int        // where the directories and files are
	limit                 int        // where their header ends
	files                 int
	firstFile             uint32 // index of Cubin.files
	nameBase              uint64
}

// read reads the header at a position and returns where the next unit is.
func (u *unit) read(o *object, at int) (next int, err error) {
	r := reader{b: o.line, at: at}
	size, wide := uint64(r.u32()), false
	if size == 0xffffffff {
		size, wide = r.u64(), true
	}
	if r.bad || size > uint64(len(o.line)-r.at) {
		return 0, corrupt("a unit of the line table is beyond it")
	}
	*u = unit{end: r.at + int(size)}
	r.b = o.line[:u.end]
	version := r.u16()
	if !r.bad && (version < 2 || version > 4) {
		return 0, corrupt("the line table has version %d, and 2 to 4 are known", version)
	}
	length := uint64(0)
	if wide {
		length = r.u64()
	} else {
		length = uint64(r.u32())
	}
	if r.bad || length > uint64(u.end-r.at) {
		return 0, corrupt("the header of a unit of the line table is beyond it")
	}
	u.program = r.at + int(length)
	r.b, u.limit = o.line[:u.program], u.program
	u.minLength = r.u8()
	if version >= 4 {
		r.u8()
	}
	r.u8() // whether rows are statements to begin with
	u.lineBase, u.lineRange, u.opcodeBase = int8(r.u8()), r.u8(), r.u8()
	for i := 1; i < int(u.opcodeBase); i++ {
		u.lengths[i] = r.u8()
	}
	u.tables = r.at
	for len(r.text()) > 0 && !r.bad {
	}
	for len(r.text()) > 0 && !r.bad {
		r.uleb()
		r.uleb()
		r.uleb()
		u.files++
	}
	if r.bad || u.opcodeBase == 0 {
		return 0, corrupt("the header of a unit of the line table is cut short")
	}
	if len(r.b)-r.at == 4 {
		u.nameBase = uint64(r.u32())
	}
	return u.end, nil
}

// appendFiles appends the unit's files. Directories are joined to names only as long as that is not far more than the cubin's own bytes.
func (u *unit) appendFiles(files []string, o *object) ([]string, error) {
	r := reader{b: o.line[:u.limit], at: u.tables}
	dirs := []string{""}
	for {
		d := r.text()
		if len(d) == 0 {
			break
		}
		if len(d) > maxNameBytes {
			return nil, corrupt("the name of a directory has %d bytes", len(d))
		}
		dirs = append(dirs, string(d))
	}
	for range u.files {
		name := string(r.text())
		dir := r.uleb()
		r.uleb()
		r.uleb()
		if len(name) > maxNameBytes {
			return nil, corrupt("the name of a file has %d bytes", len(name))
		}
		if dir > 0 && dir < uint64(len(dirs)) && !strings.HasPrefix(name, "/") {
			if o.spare -= len(dirs[dir]) + len(name); o.spare < 0 {
				return nil, corrupt("its names of files are far longer than the file")
			}
			name = dirs[dir] + "/" + name
		}
		files = append(files, name)
	}
	return files, nil
}
