// Package engine runs the embedded ClickHouse: the real server code of libchdb, opened without cgo
// in a child process of the same binary, answering on loopback like any other ClickHouse.
//
// A program that imports this package can be its own child: when the environment variable
// WARPLINE_ENGINE_CHILD names a child configuration, the package's init runs the engine in place
// of main and never returns. That is why test binaries need no helper program.
//
// There are three steps. Locate finds the library or fetches it once. Prepare writes the engine's configuration into a folder. Start spawns
// the child and waits until both protocols answer; Supervise keeps one running.
//
// The folder of an engine (Config.Dir) holds:
//
//	config/           config.xml, users.xml, listen.sql, child.json: rewritten at every start
//	data/             ClickHouse's own path; survives kill -9
//	logs/             engine.log (rotated by ClickHouse), child.log (what the process printed)
//
// The passwords of the writer and the reader are in the folder that Config.Secrets names (Config.Dir by default), mode 0600.
//
// The child is confined (confine_linux.go, calls_linux.go): whatever a query makes ClickHouse try, it reads and writes beneath data, reads
// its own configuration, library, time zones and processor counts, and cannot connect to anything. Users are a second fence (template.go):
// the reader may change only a few settings (reader.go), and default may not do anything.
package engine
