package gpuflight

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// Artifacts are what a session's functions are made of. A content is stored in a table of contents, with its hash as the key, and a link to
// it in a table of the session's links. Which function, instruction or line a sample means is found at read, so it does not matter which
// comes first. The same line again is a duplicate, so a session has a content once; ClickHouse merges away what another session sends
// again.

// Bounds of artifacts, in addition to those of one line (package gpuflight). A run of a million equal instructions is a line of a hundred
// bytes: the bounds are on what is made of it.
const (
	// maxPartInstructions and maxPartText bound the functions of one part; a function beyond them is a reject artifact_too_large. A part
	// without runs does not have room for more than a third of them.
	maxPartInstructions = 2 << 20
	maxPartText         = 64 << 20
	// maxSessionRows bounds the instructions and source lines of one session; an artifact beyond it is a reject artifact_too_large.
	maxSessionRows = 32 << 20
	// maxInstructionBytes cuts a longer instruction and marks the cut.
	maxInstructionBytes = 1024
)

// What is hashed before a content, so that two kinds never share a hash.
const (
	contentSource byte = 1 + iota
	contentSASS
	contentPTX
)

// partArtifacts is what the artifacts of one part have become so far.
type partArtifacts struct{ instructions, text, demangling int }

// artifact folds a line of one of the three types.
func (f *folding) artifact(s *session, p *aggregate.Part, l *gpuflight.Line) {
	var err error
	switch l.Type {
	case gpuflight.SourceFileContent:
		err = f.source(s, p, l)
	case gpuflight.CubinDisassembly:
		err = f.disassembly(s, p, l)
	default:
		err = f.ptx(s, p, l)
	}
	if err == nil {
		p.Stored(1)
		f.leftovers(s, p, l)
		return
	}
	r := aggregate.Reject{Reason: gpuflight.ReasonBadJSON, Detail: err.Error(), Type: typeName(l.Type), Events: 1, Payload: l.Raw}
	var bad *gpuflight.LineError
	if errors.As(err, &bad) {
		r.Reason, r.Detail = bad.Reason, bad.Detail
	}
	f.Reject(p, r)
}

// isArtifact reports whether lines of this type are artifacts, which are known by their content.
func isArtifact(t gpuflight.Type) bool {
	return t == gpuflight.SourceFileContent || t == gpuflight.CubinDisassembly || t == gpuflight.PtxDisassembly
}

// room takes rows from what a session may have, or says why it may not.
func (s *session) room(rows int) error {
	if s.artifactRows+uint64(rows) > maxSessionRows {
		return &gpuflight.LineError{Reason: gpuflight.ReasonArtifactTooLarge, Detail: "the session has as many instructions and source lines " +
			"as it may"}
	}
	s.artifactRows += uint64(rows)
	return nil
}

func (s *session) appendArtifacts(w *state.Writer) { w.U64(s.artifactRows) }
func (s *session) readArtifacts(r *state.Reader)   { s.artifactRows = r.U64() }

// content hashes byte strings so that another sequence of them never gives the same bytes.
type content struct{ h xxh3.Hasher }

func (c *content) number(v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	c.h.Write(b[:])
}

func (c *content) text(b []byte) {
	c.number(uint64(len(b)))
	c.h.Write(b)
}

// sum never is 0, which marks rows that are not contents.
func (c *content) sum() xxh3.Uint128 {
	h := c.h.Sum128()
	if h == (xxh3.Uint128{}) {
		h.Lo = 1
	}
	return h
}

// artifactBatch returns the batch of a table of contents or links for rows of the part.
func (f *folding) artifactBatch(p *aggregate.Part, t *table.Table) *table.Batch {
	return f.Out.Batch(t, rows.FactDayPartition(p.Env.ReceivedAt, rows.FactDays(p.Env.RetentionDays, p.Env.RollupDays)))
}

func (f *folding) source(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	var c content
	c.h.Write([]byte{contentSource})
	src, err := gpuflight.DecodeSource(l, func(_ int, text []byte) { c.text(text) })
	if err == nil {
		err = s.room(src.Lines)
	}
	if err != nil {
		return err
	}
	id, day := c.sum(), rows.DayOf(p.Env.ReceivedAt)
	t := &table.SourceLines
	b := f.artifactBatch(p, t.Table)
	tenant := t.Tenant.Index(b, s.Key.Tenant)
	add := func(id xxh3.Uint128, n int, text []byte) {
		t.Tenant.Append(b, tenant)
		t.ContentHi.Append(b, id.Hi)
		t.ContentLo.Append(b, id.Lo)
		t.Line.Append(b, uint32(n))
		t.Text.AppendBytes(b, text)
		t.ReceivedDay.Append(b, day)
	}
	add(xxh3.Uint128{}, 0, nil) // the mark, see table.SourceLines
	if _, err := gpuflight.DecodeSource(l, func(n int, text []byte) { add(id, n, text) }); err != nil {
		panic("BUG: aggregate: a source file decodes once and not twice: " + err.Error())
	}

	table.SessionSources.Append(f.artifactBatch(p, table.SessionSources.Table), &table.SessionSourceRow{
		HeadRow:      s.Head(),
		SourceFileID: src.FileID,
		ContentHi:    id.Hi,
		ContentLo:    id.Lo,
		Lines:        uint32(src.Lines),
		ReceivedDay:  day,
	})
	return nil
}

func (f *folding) disassembly(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	var c content
	c.h.Write([]byte{contentSASS})
	d, err := gpuflight.DecodeDisassembly(l, func(r gpuflight.Run) {
		c.number(r.PC)
		c.number(r.Stride)
		c.number(uint64(r.Count))
		c.text(r.SASS)
	})
	if err == nil && (f.now.artifacts.instructions+d.Instructions > maxPartInstructions || f.now.artifacts.text+d.TextBytes > maxPartText) {
		err = &gpuflight.LineError{Reason: gpuflight.ReasonArtifactTooLarge, Detail: "runs of equal instructions make more of this part than " +
			"a part may hold"}
	}
	if err == nil {
		err = s.room(d.Instructions)
	}
	if err != nil {
		return err
	}
	f.now.artifacts.instructions += d.Instructions
	f.now.artifacts.text += d.TextBytes
	id, day := c.sum(), rows.DayOf(p.Env.ReceivedAt)
	t := &table.SASSLines
	b := f.artifactBatch(p, t.Table)
	tenant := t.Tenant.Index(b, s.Key.Tenant)
	add := func(id xxh3.Uint128, first, stride uint64, n int, text []byte) {
		t.Tenant.AppendN(b, tenant, n)
		t.ContentHi.AppendN(b, id.Hi, n)
		t.ContentLo.AppendN(b, id.Lo, n)
		for i := range n {
			t.PC.Append(b, first+uint64(i)*stride)
		}
		if len(text) > maxInstructionBytes {
			text = []byte(strings.ToValidUTF8(string(text[:maxInstructionBytes]), "") + "…")
		}
		t.SASS.AppendN(b, t.SASS.IndexBytes(b, text), n)
		t.ReceivedDay.AppendN(b, day, n)
	}
	add(xxh3.Uint128{}, 0, 0, 1, nil) // the mark, see table.SASSLines
	if _, err := gpuflight.DecodeDisassembly(l, func(r gpuflight.Run) { add(id, r.PC, r.Stride, r.Count, r.SASS) }); err != nil {
		panic("BUG: aggregate: a function decodes once and not twice: " + err.Error())
	}
	f.functionLink(s, p, table.ArtifactSASS, d.CubinCRC, d.Function, "", id, d.Instructions)
	return nil
}

func (f *folding) ptx(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	x, err := gpuflight.DecodePTX(l)
	if err != nil {
		return err
	}
	arch, function := rows.Clip(x.Arch), clipName(x.Function)
	var c content
	c.h.Write([]byte{contentPTX})
	c.text([]byte(function))
	c.text([]byte(arch))
	c.text(x.Text)
	id, day := c.sum(), rows.DayOf(p.Env.ReceivedAt)
	t := &table.PTX
	b := f.artifactBatch(p, t.Table)
	add := func(id xxh3.Uint128, function, arch string, text []byte) {
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.ContentHi.Append(b, id.Hi)
		t.ContentLo.Append(b, id.Lo)
		t.FunctionName.Append(b, function)
		t.Arch.AppendString(b, arch)
		t.PTX.AppendBytes(b, text)
		t.ReceivedDay.Append(b, day)
	}
	add(xxh3.Uint128{}, "", "", nil) // the mark, see table.PTX
	add(id, function, arch, x.Text)
	f.functionLink(s, p, table.ArtifactPTX, 0, function, arch, id, 0)
	return nil
}

// functionLink says which content a function of the session has.
func (f *folding) functionLink(s *session, p *aggregate.Part, kind string, crc uint64, function, arch string, id xxh3.Uint128,
	instructions int) {
	table.SessionFunctions.Append(f.artifactBatch(p, table.SessionFunctions.Table), &table.SessionFunctionRow{
		HeadRow:      s.Head(),
		Kind:         kind,
		CubinCRC:     crc,
		FunctionName: clipName(function),
		Demangled:    f.now.artifacts.demangle(function),
		Arch:         arch,
		ContentHi:    id.Hi,
		ContentLo:    id.Lo,
		Instructions: uint32(instructions),
		ReceivedDay:  rows.DayOf(p.Env.ReceivedAt),
	})
}

// clipName cuts a name that is too long for a dictionary, and marks the cut.
func clipName(name string) string {
	if len(name) <= aggregate.MaxNameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:aggregate.MaxNameBytes], "") + "…"
}
