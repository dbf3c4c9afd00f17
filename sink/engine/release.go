package engine

import (
	"fmt"
	"runtime"
)

// Version is the npm version of the library that this code was written against and pins.
const Version = "26.7.3-stable.1"

// release is one published build of the library. The digest is that of the npm tarball, pinned here and not read from the registry, so that
// a tarball which changed in the registry is refused.
type release struct {
	spec      string // what npm is asked for: name@version
	integrity string // sha512-<base64> of the packed tarball
	packed    int64  // bytes of the tarball, for an honest progress bar
	member    string // the library's name within the tarball
	unpacked  int64  // bytes of the library itself
}

// releases lists the platforms whose tarball somebody fetched and measured. A platform that is missing is refused with the remedies of
// Locate, because the registry alone is not trusted.
var releases = map[string]release{
	"linux/amd64": {
		spec:      "@chdb/lib-linux-x64-gnu@" + Version,
		integrity: "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==",
		packed:    177_817_999,
		member:    "package/libchdb.so",
		unpacked:  566_330_096,
	},
}

// platformRelease returns the pinned build for the machine this runs on.
func platformRelease() (release, error) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	r, ok := releases[platform]
	if !ok {
		return release{}, fmt.Errorf("no ClickHouse library with a pinned digest for %s", platform)
	}
	return r, nil
}
