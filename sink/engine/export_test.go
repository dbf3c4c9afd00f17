package engine

import "runtime"

// Gist is what an error text quotes of a child's log.
var Gist = gist

// SetRelease makes Locate fetch another release until the returned function is called.
func SetRelease(spec, integrity string, packed, unpacked int64) (restore func()) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	old, had := releases[platform]
	releases[platform] = release{spec: spec, integrity: integrity, packed: packed, member: "package/libchdb.so", unpacked: unpacked}
	return func() {
		if had {
			releases[platform] = old
		} else {
			delete(releases, platform)
		}
	}
}

// Changeable are the settings that the reader may change within no bounds.
var Changeable = changeable
