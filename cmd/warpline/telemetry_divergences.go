package main

import (
	"cmp"
	"fmt"

	"github.com/warpline/warpline/proto/telemetry"
)

// telemetryDivergencesCmd prints where Warpline judges otherwise than stormlog.
type telemetryDivergencesCmd struct{}

func (c *telemetryDivergencesCmd) Run(p *program) error {
	list := telemetry.Divergences()
	fmt.Fprintf(p.Stdout, "Where Warpline differs from stormlog on purpose, in %d places; all else is as stormlog does it.\n", len(list))
	for i, d := range list {
		fmt.Fprintf(p.Stdout, "\n%d. %s\n   stormlog  %s\n   warpline  %s\n   refused   %s\n", i+1, d.What, d.Peer, d.Here, cmp.Or(string(d.Code), "no"))
	}
	return nil
}
