package telemetry

import (
	"fmt"
	"strings"
)

// Peer is a release of stormlog, whose judgement is asked for. The zero value is the newest.
type Peer uint8

// Releases that judge differently. Those between them judge as one of the two, save 0.3.0 to 0.3.9, which do not know version 4.
const (
	Peer043 Peer = iota // records of versions 1 to 4; what it accepts becomes version 4
	Peer029             // records of versions 1 and 2; what it accepts becomes version 2
)

// Peers are the names that ParsePeer knows, the newest first.
func Peers() []string { return []string{"0.4.3", "0.2.9"} }

// ParsePeer reads the name of a release; "" is the newest. The error says which there are.
func ParsePeer(name string) (Peer, error) {
	switch name {
	case "", "0.4.3":
		return Peer043, nil
	case "0.2.9":
		return Peer029, nil
	}
	return 0, fmt.Errorf("must be %s", strings.Join(Peers(), " or "))
}

// String returns the release.
func (p Peer) String() string { return Peers()[min(int(p), len(Peers())-1)] }
