package gpuflight

import (
	"encoding/json"
	"strconv"
	"strings"
)

// readOlder fills in what an init line spells in another way than job_start: units left out of names, versions in quotes, static devices
// under their vendor's list alone. What the line has in today's spelling stays.
func (j *Job) readOlder(raw []byte) {
	var old olderJob
	// The line was read once: what does not fit is left out, as before.
	_ = json.Unmarshal(raw, &old)
	for i := range j.Devices {
		if d, o := &j.Devices[i], &old.Devices; i < len(*o) {
			d.UtilGPUPct, d.UtilMemPct = max(d.UtilGPUPct, (*o)[i].UtilGPU), max(d.UtilMemPct, (*o)[i].UtilMem)
			d.ClkGfxMHz, d.ClkSMMHz, d.ClkMemMHz = max(d.ClkGfxMHz, (*o)[i].ClkGfx), max(d.ClkSMMHz, (*o)[i].ClkSM), max(d.ClkMemMHz, (*o)[i].ClkMem)
		}
	}
	j.StaticDevices = j.StaticDevices[:0]
	for _, list := range []struct {
		vendor  string
		devices []olderStatic
	}{{"", old.GPU}, {"NVIDIA", old.CUDA}, {"AMD", old.ROCm}} {
		for i := range list.devices {
			if len(j.StaticDevices) == maxDevices || j.hasStatic(list.devices[i].ID) {
				continue
			}
			j.StaticDevices = append(j.StaticDevices, list.devices[i].today(list.vendor))
		}
	}
}

// olderJob is what an init line has beside the keys of a Job.
type olderJob struct {
	Devices []struct {
		UtilGPU uint64 `json:"util_gpu"`
		UtilMem uint64 `json:"util_mem"`
		ClkGfx  uint64 `json:"clk_gfx" fits:"u32"`
		ClkSM   uint64 `json:"clk_sm" fits:"u32"`
		ClkMem  uint64 `json:"clk_mem" fits:"u32"`
	} `json:"devices" most:"1024"`
	GPU  []olderStatic `json:"gpu_static_devices" most:"1024"`
	CUDA []olderStatic `json:"cuda_static_devices" most:"1024"`
	ROCm []olderStatic `json:"rocm_static_devices" most:"1024"`
}

func (j *Job) hasStatic(id int64) bool {
	for i := range j.StaticDevices {
		if j.StaticDevices[i].ID == id {
			return true
		}
	}
	return false
}

// olderStatic is a static device in both spellings.
type olderStatic struct {
	StaticDevice
	Major      looseInt `json:"compute_major" fits:"u32"`
	Minor      looseInt `json:"compute_minor" fits:"u32"`
	L2         uint64   `json:"l2_cache_size"`
	Shared     uint64   `json:"shared_mem_per_block"`
	Multiprocs uint64   `json:"multiprocessor_count" fits:"u32"`
	SMs        uint64   `json:"sm_count" fits:"u32"`
}

// today returns the device in today's spelling; vendor is that of the list it stands in.
func (o *olderStatic) today(vendor string) StaticDevice {
	d := o.StaticDevice
	d.ComputeMajor, d.ComputeMinor = int64(o.Major), int64(o.Minor)
	d.L2CacheSizeBytes = max(d.L2CacheSizeBytes, o.L2)
	d.SharedMemPerBlockBytes = max(d.SharedMemPerBlockBytes, o.Shared)
	d.MultiProcessorCount = max(d.MultiProcessorCount, o.Multiprocs, o.SMs)
	if d.Vendor == "" {
		d.Vendor = vendor
	}
	if d.Architecture == "" && strings.EqualFold(d.Vendor, "NVIDIA") && d.ComputeMajor > 0 {
		d.Architecture = "sm_" + strconv.FormatInt(d.ComputeMajor, 10) + strconv.FormatInt(d.ComputeMinor, 10)
	}
	return d
}

// looseInt is a number that may stand in quotes; anything else is 0.
type looseInt int64

// UnmarshalJSON never fails, so that one odd value costs no other field.
func (v *looseInt) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	if err == nil {
		*v = looseInt(n)
	}
	return nil
}
