package table_test

import (
	"testing"
	"time"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// Launch stacks carry samples, and apart from them the time of kernels; frames are innermost first. Another tenant's frames are not shown,
// nor samples of a key that keeps stacks out.
func TestLaunchStacks(t *testing.T) {
	s := newStore(t, true)
	k, q, f := table.KernelStacks, table.PCBuckets, table.StackFrames
	s.Seed(k, 2, func(b *table.Batch, i int) {
		session(k.Head, b)
		k.Bucket.Append(b, tabletest.Received.Truncate(time.Minute).UnixNano())
		k.Function.AppendString(b, "_Zk")
		k.ContentHi.Append(b, []uint64{10, 0}[i])
		k.ContentLo.Append(b, []uint64{1, 0}[i])
		k.Calls.Append(b, []uint64{3, 1}[i])
		k.KernelNS.Append(b, []uint64{300, 7}[i])
	})
	s.Seed(q, 5, func(b *table.Batch, i int) {
		session(q.Head, b)
		q.Bucket.Append(b, tabletest.Received.Truncate(time.Minute).UnixNano())
		q.BuildID.AppendString(b, "b")
		q.Cubin.AppendString(b, "c")
		q.Function.AppendString(b, "_Zk")
		q.PCOffset.Append(b, []uint64{0, 16, 0, 0, 0}[i])
		q.SASS.AppendString(b, []string{"LDG", "BAR", "LDG", "LDG", "LDG"}[i])
		q.StallReason.AppendString(b, stalled+[]string{"wait", "wait", "wait", "wait_not_issued", "wait"}[i])
		q.ContentHi.Append(b, []uint64{10, 10, 0, 10, 0}[i])
		q.ContentLo.Append(b, []uint64{1, 1, 0, 1, table.StackNotKept}[i])
		q.Samples.Append(b, []uint64{1, 2, 4, 8, 16}[i])
		q.GPUNS.Append(b, []uint64{10, 20, 40, 80, 160}[i])
	})
	for _, tenant := range []string{"acme", "acme", "rival"} { // a content may be there twice
		s.Seed(f, 2, func(b *table.Batch, i int) {
			f.Tenant.AppendString(b, tenant)
			f.ContentHi.Append(b, []uint64{10, 0}[i])
			f.ContentLo.Append(b, []uint64{1, 0}[i])
			f.Frames.Append(b, []string{"/app/train.py:41 train_step\nmain " + tenant, ""}[i])
		})
	}
	s.cubin("acme", "b", "ok", 0, today(), span{"_Zk", 0, 16, "k.cu", 8, "in.h:1 f\nk.cu:8 _Zk"})
	const known, unknown = "000000000000000a0000000000000001", "00000000000000000000000000000000"
	const frames = "['/app/train.py:41 train_step','main acme']"
	s.Want("SELECT stack_id, frames, function, stall_reason, reason_kind, samples, gpu_ns FROM {db}.pc_stacks ORDER BY samples",
		known+"\t"+frames+"\t_Zk\t"+stalled+"wait\tstall\t3\t30\n"+
			unknown+"\t[]\t_Zk\t"+stalled+"wait\tstall\t4\t40\n"+
			known+"\t"+frames+"\t_Zk\t"+stalled+"wait_not_issued\tstall_not_issued\t8\t80")
	s.Want("SELECT stack_id, frames, function, calls, kernel_ns FROM {db}.kernel_stacks ORDER BY calls",
		unknown+"\t[]\t_Zk\t1\t7\n"+known+"\t"+frames+"\t_Zk\t3\t300")
	s.Want("SELECT pc_offset, sass, build_id, cubin, samples, file, line, inline_chain, symbol_status FROM {db}.pc_stack_lines "+
		"WHERE stack_id = '"+known+"' ORDER BY samples",
		"0\tLDG\tb\tc\t1\tk.cu\t8\t['in.h:1 f','k.cu:8 _Zk']\tok\n16\tBAR\tb\tc\t2\t\t0\t[]\tno_lineinfo\n"+
			"0\tLDG\tb\tc\t8\tk.cu\t8\t['in.h:1 f','k.cu:8 _Zk']\tok")
}

func TestSessionLabels(t *testing.T) {
	s := newStore(t, true)
	l := table.SessionLabels
	for range 2 {
		s.Seed(l, 2, func(b *table.Batch, i int) {
			l.Append(b, &table.SessionLabelRow{HeadRow: acme("s"), Label: "pod", Value: []string{"a", "(other)"}[i], Rows: uint64(5 * i),
				ReceivedDay: today()})
		})
	}
	s.Want("SELECT session_id, label, value, rows_folded FROM {db}.session_labels ORDER BY value", "s\tpod\t(other)\t10\ns\tpod\ta\t0")
}
