#!/bin/sh
# make.sh COMMIT... writes what each commit leaves in NATS to COMMIT.tar.gz beside it; HEAD is written as the commit that HEAD is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for c in "$@"; do
	c=$(git -C "$here" rev-parse --short=7 "$c")
	tree=$(mktemp -d)
	git -C "$here" worktree add -q --detach "$tree/w" "$c"
	cp "$here/dump_test.go.txt" "$tree/w/aggregate/dump_test.go"
	for f in "$tree"/w/aggregate/*_test.go; do # its own tests may not be what they were
		[ "$f" = "$tree/w/aggregate/dump_test.go" ] || rm "$f"
	done
	if [ -f "$tree/w/aggregate/source.go" ]; then # the worker is given its sources
		printf '%s\n' 'package aggregate_test' 'import (' '"github.com/warpline/warpline/aggregate"' '"github.com/warpline/warpline/aggregate/gpuflight"' \
			'"github.com/warpline/warpline/aggregate/telemetry"' ')' \
			'var dumpSources = []aggregate.Source{gpuflight.Source(), telemetry.Source()}' >"$tree/w/aggregate/dump_sources_test.go"
		sed -i 's/aggregate.Config{/aggregate.Config{Sources: dumpSources, /' "$tree/w/aggregate/dump_test.go"
	fi
	(cd "$tree/w" && DUMP="$here/$c.tar.gz" go test ./aggregate -count=1 -run TestDumpState)
	git -C "$here" worktree remove --force "$tree/w"
	rmdir "$tree"
done
