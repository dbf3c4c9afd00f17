package gpuflight

import (
	"encoding/json"
	"errors"

	"github.com/warpline/warpline/proto/reject"
)

// maxSessionLine bounds job_start and shutdown lines. The client's job_start has some 1200 bytes a GPU; an
// empty device of 3 bytes decodes to 200, so the bound is on the memory too.
const maxSessionLine = 256 << 10

// maxDevices bounds the devices kept of a job_start.
const maxDevices = 1024

// Job is a job_start line, or an init line of older clients: what a session runs on. Fields the line lacks are zero. Text is valid
// UTF-8.
type Job struct {
	SessionID       string `json:"session_id"`
	PID             int64  `json:"pid" fits:"u32"`
	App             string `json:"app"`
	LogPath         string `json:"log_path"`
	TimeNS          int64  `json:"ts_ns" fits:"size"` // Unix time
	Hostname        string `json:"hostname"`
	IP              string `json:"ip_addr"`
	SessionKind     string `json:"session_kind"`     // trace or monitor
	ProfilingEngine string `json:"profiling_engine"` // nvidia.trace, nvidia.pc_sampling, …; the prefix says nothing of the vendor

	// One analysis may take several passes over the same program.
	AnalysisID string `json:"analysis_id"`
	PassIndex  int64  `json:"pass_index" fits:"u32"`
	PassCount  int64  `json:"pass_count" fits:"u32"`

	// A segmented run is many sessions with one run id; a rolled one many runs with one chain id.
	RunID         string `json:"run_id"`
	SegmentIndex  int64  `json:"segment_index" fits:"id"`
	RollChainID   string `json:"roll_chain_id"`
	PartIndex     int64  `json:"part_index" fits:"u32"` // from 1
	PreviousRunID string `json:"previous_run_id"`

	Host          HostSnapshot   `json:"host"`
	Devices       []Device       `json:"devices" most:"1024"`
	StaticDevices []StaticDevice `json:"gpu_static_devices" most:"1024"`

	// SystemRateMS is how often the sampler of an older client took a sample; 0 in lines of today's.
	SystemRateMS int64 `json:"system_rate_ms" fits:"u32"`

	// Partial tells that a field was of the wrong JSON kind and read as zero, or that devices were left out.
	Partial bool `json:"-"`
}

// HostSnapshot is the host's load when the session began.
type HostSnapshot struct {
	CPUPct      float64 `json:"cpu_pct"`
	RAMUsedMiB  uint64  `json:"ram_used_mib" fits:"mib"`
	RAMTotalMiB uint64  `json:"ram_total_mib" fits:"mib"`
}

// Device is one GPU as the session saw it at its start. ID is what device_id columns mean within this session; UUID is the
// identity across sessions.
type Device struct {
	ID         int64  `json:"id" fits:"id"`
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	Vendor     string `json:"vendor"` // NVIDIA or AMD
	PCIBus     int64  `json:"pci_bus" fits:"i32"`
	UsedMiB    uint64 `json:"used_mib" fits:"mib"`
	FreeMiB    uint64 `json:"free_mib" fits:"mib"`
	TotalMiB   uint64 `json:"total_mib" fits:"mib"`
	TempC      int64  `json:"temp_c"`
	PowerMW    uint64 `json:"power_mw"`
	ClkGfxMHz  uint64 `json:"clk_gfx_mhz" fits:"u32"`
	ClkSMMHz   uint64 `json:"clk_sm_mhz" fits:"u32"`
	ClkMemMHz  uint64 `json:"clk_mem_mhz" fits:"u32"`
	UtilGPUPct uint64 `json:"util_gpu_pct"`
	UtilMemPct uint64 `json:"util_mem_pct"`
	// 0 or 1
	ThrottlePower   uint64 `json:"throttle_pwr" fits:"u8"`
	ThrottleThermal uint64 `json:"throttle_therm" fits:"u8"`
	// bytes a second
	PCIeRxBps uint64 `json:"pcie_rx_bw_bps"`
	PCIeTxBps uint64 `json:"pcie_tx_bw_bps"`
}

// StaticDevice is what does not change about a GPU.
type StaticDevice struct {
	ID                     int64  `json:"id" fits:"id"`
	Name                   string `json:"name"`
	UUID                   string `json:"uuid"`
	Vendor                 string `json:"vendor"`
	Architecture           string `json:"architecture"` // sm_90, gfx942
	ComputeMajor           int64  `json:"compute_major" fits:"u32"`
	ComputeMinor           int64  `json:"compute_minor" fits:"u32"`
	L2CacheSizeBytes       uint64 `json:"l2_cache_size_bytes"`
	SharedMemPerBlockBytes uint64 `json:"shared_mem_per_block_bytes"`
	RegsPerBlock           uint64 `json:"regs_per_block" fits:"u32"`
	MultiProcessorCount    uint64 `json:"multi_processor_count" fits:"u32"`
	WarpSize               uint64 `json:"warp_size" fits:"u32"`
}

// Vendor returns the vendor of the first device that names one, "" if none does. It decides what copy kinds mean.
func (j *Job) Vendor() string {
	for i := range j.Devices {
		if v := j.Devices[i].Vendor; v != "" {
			return v
		}
	}
	for i := range j.StaticDevices {
		if v := j.StaticDevices[i].Vendor; v != "" {
			return v
		}
	}
	return ""
}

// JobEnd is a shutdown line. The flags are set when the launcher had to write it for a process that could not.
type JobEnd struct {
	SessionID     string `json:"session_id"`
	PID           int64  `json:"pid" fits:"u32"`
	App           string `json:"app"`
	TimeNS        int64  `json:"ts_ns" fits:"size"`
	Synthetic     bool   `json:"synthetic"`
	ExitCode      int64  `json:"exit_code"`
	Signaled      bool   `json:"signaled"`
	Signal        int64  `json:"signal" fits:"i32"`
	WindowStopped bool   `json:"window_stopped"`
	Crashed       bool   `json:"crashed"`
	// Partial tells that a field was of the wrong JSON kind and read as zero.
	Partial bool `json:"-"`
}

// DecodeJobStart decodes a job_start or init line. A field of the wrong kind makes the result Partial, not an error. Errors are
// *LineError: bad_json, or line_too_long above 256 KiB. A repeated key is read as encoding/json does.
func DecodeJobStart(line *Line) (Job, error) {
	var j Job
	partial, err := unmarshal(line.Raw, &j)
	if err != nil {
		return Job{}, err
	}
	if len(j.Devices) > maxDevices || len(j.StaticDevices) > maxDevices {
		partial = true
		j.Devices = j.Devices[:min(len(j.Devices), maxDevices)]
		j.StaticDevices = j.StaticDevices[:min(len(j.StaticDevices), maxDevices)]
	}
	j.Partial = partial
	if line.Type == Init {
		j.readOlder(line.Raw)
	}
	return j, nil
}

// DecodeShutdown decodes a shutdown line, with the errors of DecodeJobStart.
func DecodeShutdown(line *Line) (JobEnd, error) {
	var e JobEnd
	partial, err := unmarshal(line.Raw, &e)
	if err != nil {
		return JobEnd{}, err
	}
	e.Partial = partial
	return e, nil
}

// unmarshal reads what fits. encoding/json goes on behind a field of the wrong kind and repairs broken UTF-8.
func unmarshal(raw []byte, into any) (partial bool, err error) {
	if len(raw) > maxSessionLine {
		return false, &LineError{Reason: reject.LineTooLong}
	}
	err = json.Unmarshal(raw, into)
	var wrongKind *json.UnmarshalTypeError
	if errors.As(err, &wrongKind) {
		return true, nil
	}
	if err != nil {
		return false, &LineError{ReasonBadJSON, "not a JSON object"}
	}
	return false, nil
}
