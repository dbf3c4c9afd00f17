package bench

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
)

// kernel is one of the names that are launched, with what stays the same from launch to launch.
type kernel struct {
	name      string
	logMedian float64 // of its durations, ns
	regs      int
	dynShared int
	config    int // of launchConfigs
}

// launchConfig is the launch shape and scope of a kernel_detail line. The text is what follows the corr_id.
type launchConfig struct {
	scope   string
	text    []byte
	outside []byte // the same for a launch outside every scope
}

// configs is the number of distinct (launch shape, scope) pairs: a model has some dozens.
const configs = 48

// scopePaths are where kernels run, as the client writes them; their last names also occur as scopes of their own.
var scopePaths = []string{
	"train|step|forward|embedding", "train|step|forward|attention", "train|step|forward|mlp", "train|step|forward|norm",
	"train|step|loss", "train|step|backward|attention", "train|step|backward|mlp", "train|step|backward|norm",
	"train|step|backward|embedding", "train|step|optimizer|adamw", "train|step|allreduce", "global",
}

// catalogue makes the kernels of a seed: the same in every session.
func catalogue(seed uint64) ([]kernel, []launchConfig) {
	r := rand.New(rand.NewPCG(seed, 0))
	cfgs := make([]launchConfig, configs)
	for i := range cfgs {
		cfgs[i] = newLaunchConfig(r, scopePaths[i%len(scopePaths)])
	}
	seen := make(map[string]bool, Names)
	list := make([]kernel, 0, Names)
	lo, hi := math.Log(float64(MinMedian)), math.Log(float64(MaxMedian))
	for len(list) < Names {
		name := kernelName(r)
		if len(name) < 70 || len(name) > 90 || seen[name] {
			continue
		}
		seen[name] = true
		list = append(list, kernel{
			name: name, logMedian: lo + r.Float64()*(hi-lo), regs: 16 + 8*r.IntN(30),
			dynShared: []int{0, 0, 0, 0, 16384, 32768, 49152, 98304}[r.IntN(8)], config: r.IntN(configs),
		})
	}
	return list, cfgs
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// kernelName returns a demangled name of the kinds that libraries of neural networks have. Its length is not bounded.
func kernelName(r *rand.Rand) string {
	typ := pick(r, "float", "double", "c10::Half", "c10::BFloat16")
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf("void cutlass::Kernel<cutlass_80_tensorop_%s_%dx%d_%dx%d_%s_align%d>(cutlass::Params)",
			pick(r, "s16816gemm_f16", "bf16_s16816gemm_relu", "f16_s16816fprop", "s1688gemm_tf32"), pick(r, 64, 128, 256),
			pick(r, 64, 128, 256), pick(r, 32, 64), pick(r, 3, 4, 5, 6), pick(r, "nn", "nt", "tn", "tt"), pick(r, 2, 4, 8))
	case 1:
		return fmt.Sprintf("void at::native::vectorized_elementwise_kernel<%d, at::native::%s<%s>>(int, %s*)", pick(r, 2, 4, 8),
			pick(r, "CUDAFunctor_add", "MulFunctor", "GeluFunctor", "SiluFunctor", "FillFunctor", "BinaryFunctor", "SqrtFunctor"), typ, typ)
	case 2:
		return fmt.Sprintf("void at::native::reduce_kernel<%d, %d, at::native::ReduceOp<%s, at::native::%s, %d>>(int)", pick(r, 128, 256, 512),
			pick(r, 1, 2, 4), typ, pick(r, "MeanOps", "SumOps", "NormTwoOps", "MaxNanFunctor", "WelfordOps"), pick(r, 1, 2, 4, 8))
	case 3:
		return fmt.Sprintf("void flash::flash_%s_kernel<Flash_kernel_traits<%d, %d, %d, %d, %s, %s>>(Params)",
			pick(r, "fwd", "bwd", "fwd_splitkv"),
			pick(r, 64, 96, 128, 192, 256), pick(r, 64, 128), pick(r, 32, 64, 128), pick(r, 4, 8), pick(r, "true", "false"), typ)
	case 4:
		return fmt.Sprintf("void (anonymous namespace)::layer_norm_%s_kernel<%s, %s, %d, %d>(%s const*, %s*, int)",
			pick(r, "forward", "backward", "grad_input"),
			typ, pick(r, "float", "double"), pick(r, 256, 512, 1024, 2048, 4096), pick(r, 1, 2, 4, 8), typ, typ)
	}
	return fmt.Sprintf("void multi_tensor_apply_kernel<TensorListMetadata<%d>, %s<%s>, %s>(long, int volatile*, %s)", pick(r, 1, 2, 3, 4, 5),
		pick(r, "AdamFunctor", "ScaleFunctor", "L2NormFunctor", "LAMBStage1Functor", "SGDFunctor"), typ,
		pick(r, "float", "long"), pick(r, "float", "int"))
}

func newLaunchConfig(r *rand.Rand, scope string) launchConfig {
	block := pick(r, 64, 128, 256, 512, 1024)
	reg, smem, warp := pick(r, 0.25, 0.375, 0.5, 0.75, 1), pick(r, 0.5, 0.75, 1), pick(r, 0.5, 1.0)
	static := pick(r, 0, 1024, 4096, 8192, 16384)
	l := launchConfig{scope: scope, text: fmt.Appendf(nil, `,"grid":"(%d,%d,1)","block":"(%d,1,1)","static_shared":%d,"local_bytes":0,`+
		`"const_bytes":%d,`+
		`"occupancy":%.6f,"reg_occupancy":%.6f,"smem_occupancy":%.6f,"warp_occupancy":%.6f,"block_occupancy":1.000000,"limiting_resource":"%s",`+
		`"max_active_blocks":%d,"local_mem_total_bytes":0,"local_mem_per_thread_bytes":0,"cache_config_requested":0,"cache_config_executed":0,`+
		`"shared_mem_executed_bytes":%d,"user_scope":"%s","stack_trace":""}`+"\n",
		1+r.IntN(4096), pick(r, 1, 1, 1, 8, 64), block, static, pick(r, 0, 0, 528), min(reg, smem, warp), reg, smem, warp,
		pick(r, "warps", "registers", "shared_mem", "blocks"), 2048/block, static, scope)}
	l.outside = bytes.Replace(l.text, fmt.Appendf(nil, `"user_scope":"%s"`, scope), []byte(`"user_scope":"global"`), 1)
	return l
}
