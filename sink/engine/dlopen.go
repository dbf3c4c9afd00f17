package engine

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// localResult mirrors the struct that query_stable_v2 returns; only the error is of interest.
type localResult struct {
	_            uintptr // buffer
	_            uintptr // its length
	_            uintptr // its owner
	_            float64 // seconds
	_            uint64  // rows read
	_            uint64  // bytes read
	errorMessage *byte
}

// errNoLibrary says that the file cannot be used as the library.
var errNoLibrary = errors.New("no library")

// runLibrary opens the library and runs clickhouse-local with args in it until it ends. A library
// of another kind, or one that is damaged, ends in an error here and not in a crash.
func runLibrary(path string, args []string) error {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("%w: open the ClickHouse library: %w", errNoLibrary, err)
	}
	const entry = "query_stable_v2"
	symbol, err := purego.Dlsym(handle, entry)
	if err == nil {
		err = guardWrites(handle, path, entry, symbol)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is not a libchdb of the expected kind: %w", errNoLibrary, path, err)
	}
	var query func(argc int32, argv **byte) *localResult
	purego.RegisterFunc(&query, symbol)

	// C keeps the pointers for as long as the engine runs, so neither the strings nor the array
	// may move or be collected.
	var pin runtime.Pinner
	defer pin.Unpin()
	argv := make([]*byte, len(args)+1) // the last one stays nil, as main's does
	for i, arg := range args {
		argv[i], err = unix.BytePtrFromString(arg)
		if err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
		pin.Pin(argv[i])
	}
	pin.Pin(&argv[0])
	result := query(int32(len(args)), &argv[0])
	if result != nil && result.errorMessage != nil {
		return fmt.Errorf("clickhouse: %s", unix.BytePtrToString(result.errorMessage))
	}
	return nil
}
