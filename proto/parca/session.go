package parca

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/stream"
)

// LabelBuckets is how many sessions the other labels of one process can make at most.
const LabelBuckets = 1024

// role is what a label is for.
type role uint8

const (
	roleOther role = iota // tells processes apart
	roleNode
	rolePID
	roleComm
	roleNone // of the thread, or not known: never identity
	roleReason
	roleSASS
	roleView
	roleDevice
	roleStream
	roleGraph
	roleCorr
)

// pairInfo is a label and what it says.
type pairInfo struct {
	pair
	role   role
	number uint64
	ok     bool // number is what the value says
}

func infoOf(p pair, name, value string) pairInfo {
	i := pairInfo{pair: p}
	if value == "" {
		i.role = roleNone
		return i
	}
	switch name {
	case "node":
		i.role = roleNode
	case "pid":
		i.role = rolePID
	case "comm":
		i.role = roleComm
	case "cpu", "thread_id", "thread_name":
		i.role = roleNone
	case "cuda_stall_reason":
		i.role = roleReason
	case "cuda_sass_instruction":
		i.role = roleSASS
	case "gpu_view":
		i.role = roleView
	case "cuda_device":
		i.role = roleDevice
	case "cuda_stream":
		i.role = roleStream
	case "cuda_graph":
		i.role = roleGraph
	case "cuda_id":
		i.role = roleCorr
	default:
		if strings.HasPrefix(name, "cuda_") {
			i.role = roleNone
		}
	}
	if i.role >= roleDevice {
		bits := 64
		switch i.role {
		case roleDevice:
			bits = 31
		case roleCorr:
			bits = 32
		}
		n, err := strconv.ParseUint(value, 10, bits)
		i.number, i.ok = n, err == nil
	}
	return i
}

// process is a distinct set of the labels that tell processes apart.
type process struct {
	from, to uint32 // Batch.held: the other labels
	session  uint32
}

// session is a session of the upload.
type session struct {
	id              string
	node, pid, comm uint32 // texts
	rows            uint32
}

// understand reads what the labels of a set say.
func (b *Batch) understand(s *set) error {
	var key sum
	var node, pid, comm uint32
	others := 0
	for _, n := range b.held[s.from:s.to] {
		p := &b.pairs[n]
		switch p.role {
		case roleOther:
			others++
		case roleNode:
			node = p.value
		case rolePID:
			pid = p.value
		case roleComm:
			comm = p.value
		case roleReason:
			s.reason = p.value
		case roleSASS:
			s.sass = p.value
		case roleView:
			s.view = p.value
		case roleDevice:
			if p.ok {
				s.device = int32(p.number)
			}
		case roleStream:
			s.stream, s.bad = p.number, s.bad || !p.ok
		case roleGraph:
			s.graph, s.bad = p.number, s.bad || !p.ok
		case roleCorr:
			s.corr, s.bad = uint32(p.number), s.bad || !p.ok
		}
		if p.role <= roleComm {
			x, y := mix(n)
			key.a, key.b = key.a+x, key.b+y
		}
	}
	n, ok := b.procN[key]
	if !ok {
		var err error
		if b.held, err = grown(&b.m, b.held, others, 4); err != nil {
			return err
		}
		if b.procs, err = grown(&b.m, b.procs, 1, 36); err != nil {
			return err
		}
		p := process{from: uint32(len(b.held))}
		for _, n := range b.held[s.from:s.to] {
			if b.pairs[n].role == roleOther {
				b.held = append(b.held, n)
			}
		}
		p.to = uint32(len(b.held))
		if p.session, err = b.session(node, pid, comm, b.held[p.from:p.to]); err != nil {
			return err
		}
		n = uint32(len(b.procs))
		b.procs = append(b.procs, p)
		b.procN[key] = n
	}
	s.proc = n
	return nil
}

// session returns the session of a process.
func (b *Batch) session(node, pid, comm uint32, others []uint32) (uint32, error) {
	id := b.scratch[:0]
	id = append(id, SessionPrefix...)
	ok := true
	id = appendIDText(id, b.texts.all[node], &ok)
	id = append(id, ':')
	id = appendIDText(id, b.texts.all[pid], &ok)
	id = append(id, ':')
	id = appendIDText(id, b.texts.all[comm], &ok)
	if !ok || len(id) > stream.MaxSessionBytes-4 {
		h := sha256.New()
		for _, t := range [...]uint32{node, pid, comm} {
			h.Write(strconv.AppendInt(nil, int64(len(b.texts.all[t])), 10))
			h.Write([]byte(":" + b.texts.all[t]))
		}
		id = append(id[:0], SessionPrefix+"sha256-"...)
		id = hex.AppendEncode(id, h.Sum(nil)[:16])
	}
	if len(others) > 0 {
		bucket := b.otherHash(others) % LabelBuckets
		const digits = "0123456789abcdef"
		id = append(id, ':', digits[bucket>>8], digits[bucket>>4&15], digits[bucket&15])
	}
	b.scratch = id
	if n, ok := b.nameN[string(id)]; ok {
		return n, nil
	}
	if err := b.m.take(len(id) + 96); err != nil {
		return 0, err
	}
	n := uint32(len(b.sessions))
	b.sessions = append(b.sessions, session{id: string(id), node: node, pid: pid, comm: comm})
	b.nameN[b.sessions[n].id] = n
	return n, nil
}

// otherHash hashes labels, which are sorted by name.
func (b *Batch) otherHash(labels []uint32) uint64 {
	var h xxh3.Hasher
	var length [8]byte
	for _, n := range labels {
		p := &b.pairs[n]
		for _, t := range [...]uint32{p.name, p.value} {
			s := b.texts.all[t]
			length[0], length[1], length[2] = byte(len(s)), byte(len(s)>>8), byte(len(s)>>16)
			h.Write(length[:])
			h.WriteString(s)
		}
	}
	return h.Sum64()
}

// appendIDText appends text as a part of an id, "-" for none; ok becomes false if it cannot be printed.
func appendIDText(dst []byte, text string, ok *bool) []byte {
	switch {
	case text == "":
		return append(dst, '-')
	case text == "-":
		return append(dst, "%2D"...)
	case len(text) > stream.MaxSessionBytes:
		*ok = false
		return dst
	}
	for _, r := range text {
		switch {
		case r == ':':
			dst = append(dst, "%3A"...)
		case r == '%':
			dst = append(dst, "%25"...)
		default:
			*ok = *ok && r != utf8.RuneError && !unicode.IsControl(r)
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}
