package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// syncPromise is how long what NATS has acknowledged may take to its disk: the embedded one syncs so often with durability os, and
// docs/operate.md says so of power cuts.
const syncPromise = 10 * time.Second

// natsDefault is what a NATS server does where its configuration says nothing.
const natsDefault = 2 * time.Minute

// mostMonitor is how much of an answer of NATS's monitoring is read.
const mostMonitor = 1 << 20

// natsSync says whether NATS may lose in a power cut what it has acknowledged. NATS does not tell its clients how often it syncs: of the
// embedded one the data folder knows, of a server its monitoring address.
func (p *Patient) natsSync(ctx context.Context) (found, fix string, err error) {
	if p.NATSSync != "" {
		return embeddedSync(p.NATSSync)
	}
	info, err := p.Streams.Ingest.Info(ctx)
	if err != nil {
		return "", "", err
	}
	copies := info.Config.Replicas
	if p.Monitor == "" {
		if copies > 1 {
			return fmt.Sprintf("%d copies of what is acknowledged, of which one may be lost; NATS does not tell how often it syncs, "+
				"--nats-monitor asks it", copies), "", nil
		}
		return "one copy, and NATS does not tell how often it syncs", fmt.Sprintf("a NATS whose configuration says nothing syncs every %v, and "+
			"what it acknowledged since may be lost in a power cut: set \"sync_interval: always\" in its jetstream block, and let doctor see it "+
			"with --nats-monitor http://HOST:8222", natsDefault), nil
	}
	every, always, err := askMonitor(ctx, p.Monitor)
	if err != nil {
		return "", "", err
	}
	switch {
	case always:
		return "NATS syncs before it acknowledges", "", nil
	case copies > 1:
		return fmt.Sprintf("NATS syncs every %v; %d copies of what is acknowledged, of which one may be lost", every, copies), "", nil
	case every <= syncPromise:
		return fmt.Sprintf("NATS syncs every %v: a power cut takes what it acknowledged since; \"sync_interval: always\" ends that",
			every), "", nil
	}
	return fmt.Sprintf("NATS syncs every %v, and has one copy", every), "a power cut takes what it acknowledged since: set \"sync_interval: " +
		"always\" in its jetstream block, or make the streams with --replicas 3", nil
}

// embeddedSync judges the NATS of up.
func embeddedSync(is string) (found, fix string, err error) {
	if is == SyncAlways {
		return "NATS syncs before it acknowledges (--durability fsync)", "", nil
	}
	every, err := time.ParseDuration(is)
	if err != nil {
		return "", "", fmt.Errorf("the data folder says that NATS syncs every %q: %w", is, err)
	}
	found = fmt.Sprintf("NATS syncs every %v (--durability os): a power cut takes what was accepted since and is not in SQL", every)
	if every > syncPromise {
		return found, "start up with --durability fsync", nil
	}
	return found + "; --durability fsync ends that", "", nil
}

// SyncAlways is Patient.NATSSync of a NATS that syncs before it acknowledges.
const SyncAlways = "always"

// askMonitor asks the monitoring address of a NATS server how often it syncs.
func askMonitor(ctx context.Context, monitor string) (every time.Duration, always bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(monitor, "/")+"/jsz?config=true", nil)
	if err != nil {
		return 0, false, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false, err
	}
	defer res.Body.Close()
	var is struct {
		Config *struct {
			Every  time.Duration `json:"sync_interval"`
			Always bool          `json:"sync_always"`
		} `json:"config"`
	}
	if res.StatusCode != http.StatusOK {
		return 0, false, fmt.Errorf("%s answers %s: give the address of NATS's monitoring, as http://127.0.0.1:8222", monitor, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, mostMonitor)).Decode(&is); err != nil || is.Config == nil {
		return 0, false, fmt.Errorf("%s does not answer as NATS's monitoring does: give its address, as http://127.0.0.1:8222", monitor)
	}
	return is.Config.Every, is.Config.Always, nil
}
