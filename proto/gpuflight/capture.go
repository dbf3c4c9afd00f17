package gpuflight

// maxCapabilities bounds the features kept of a capture_capabilities line; the client knows some twenty.
const maxCapabilities = 256

// Capabilities is a capture_capabilities line: what the session was asked to record, and what it could.
type Capabilities struct {
	SessionID       string       `json:"session_id"`
	TimeNS          int64        `json:"ts_ns" fits:"size"`
	RequestedEngine string       `json:"requested_engine"`
	SelectedEngine  string       `json:"selected_engine"`
	Features        []Capability `json:"capabilities" most:"256"`
	// Partial tells that a field was of the wrong JSON kind and read as zero, or that features beyond 256 were left out.
	Partial bool `json:"-"`
}

// Capability is what became of one feature.
type Capability struct {
	Feature    string `json:"feature"` // kernel_events, pc_sampling, …
	Requested  bool   `json:"requested"`
	Status     string `json:"status"` // collected, partial, fallback, enabled_no_data, expected_no_data, skipped, not_requested
	Mode       string `json:"mode"`
	ReasonCode string `json:"reason_code"`
	Message    string `json:"message"`
}

// SyntheticDurations reports whether the session's kernel rows tell gaps between launches on the host in place of times on the GPU:
// the client falls back to that where the GPU cannot give both samples and activity.
func (c *Capabilities) SyntheticDurations() bool {
	for i := range c.Features {
		if f := &c.Features[i]; f.Feature == "kernel_events" && f.Mode == "launch_callbacks_synthetic" {
			return true
		}
	}
	return false
}

// DecodeCapabilities decodes a capture_capabilities line, with the errors of DecodeJobStart.
func DecodeCapabilities(line *Line) (Capabilities, error) {
	var c Capabilities
	partial, err := unmarshal(line.Raw, &c)
	if err != nil {
		return Capabilities{}, err
	}
	if len(c.Features) > maxCapabilities {
		c.Features, partial = c.Features[:maxCapabilities], true
	}
	c.Partial = partial
	return c, nil
}

// maxEngines bounds the engines kept of a deep_window_event line.
const maxEngines = 64

// DeepWindow is a deep_window_event line: a stretch of a session in which the client profiled deeply, replaying kernels, so that
// nothing in it ran at its own speed.
type DeepWindow struct {
	SessionID            string      `json:"session_id"`
	Name                 string      `json:"name"`
	CloseReason          string      `json:"close_reason"` // deadline, launch_budget, manual, session_stop
	Engines              []string    `json:"engines" most:"64"`
	StartNS              int64       `json:"start_ns"`
	EndNS                int64       `json:"end_ns"`
	DurationNS           int64       `json:"duration_ns" fits:"size"`
	LaunchesCovered      int64       `json:"launches_covered" fits:"size"`
	RequestedDurationMS  int64       `json:"requested_duration_ms" fits:"size"`
	RequestedMaxLaunches int64       `json:"requested_max_launches" fits:"size"`
	Trigger              DeepTrigger `json:"trigger"` // zero when a person opened the window
	// Partial tells that a field was of the wrong JSON kind and read as zero, or that engines beyond 64 were left out.
	Partial bool `json:"-"`
}

// DeepTrigger is the rule that opened a deep window. RuleID is empty when none did.
type DeepTrigger struct {
	RuleID         string  `json:"rule_id"`
	Metric         string  `json:"metric"`
	Op             string  `json:"op"`
	Threshold      float64 `json:"threshold"`
	RearmThreshold float64 `json:"rearm_threshold"`
	Observed       float64 `json:"observed"`
	RateWindowMS   int64   `json:"rate_window_ms" fits:"size"`
	SustainedMS    int64   `json:"sustained_ms" fits:"size"`
	FirstTrueNS    int64   `json:"first_true_ns" fits:"size"`
	FiredNS        int64   `json:"fired_ns" fits:"size"`
}

// DecodeDeepWindow decodes a deep_window_event line, with the errors of DecodeJobStart and: bad_time when it has no start or no end,
// negative_duration when it ends before it starts.
func DecodeDeepWindow(line *Line) (DeepWindow, error) {
	var w DeepWindow
	partial, err := unmarshal(line.Raw, &w)
	if err != nil {
		return DeepWindow{}, err
	}
	switch {
	case w.StartNS <= 0 || w.EndNS <= 0:
		return DeepWindow{}, &LineError{ReasonBadTime, "start_ns and end_ns do not say when the window was"}
	case w.EndNS < w.StartNS:
		return DeepWindow{}, &LineError{ReasonNegativeDuration, "the window ends before it starts"}
	}
	if len(w.Engines) > maxEngines {
		w.Engines, partial = w.Engines[:maxEngines], true
	}
	w.Partial = partial
	return w, nil
}
