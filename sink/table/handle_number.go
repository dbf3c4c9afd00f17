package table

func fill[T any](s *[]T, v T, n int) {
	for range n - len(*s) {
		*s = append(*s, v)
	}
}

func more[T any](s *[]T, v T, n int) { fill(s, v, len(*s)+n) }

// Append adds one value.
func (c U8Col) Append(b *Batch, v uint8) { b.u8[c] = append(b.u8[c], v) }

// AppendN adds a value n times.
func (c U8Col) AppendN(b *Batch, v uint8, n int) { more(&b.u8[c], v, n) }

// Fill repeats a value up to the row count.
func (c U8Col) Fill(b *Batch, v uint8) { fill(&b.u8[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c U8Col) Slice(b *Batch) *[]uint8 { return &b.u8[c] }

// Append adds one value.
func (c U16Col) Append(b *Batch, v uint16) { b.u16[c] = append(b.u16[c], v) }

// AppendN adds a value n times.
func (c U16Col) AppendN(b *Batch, v uint16, n int) { more(&b.u16[c], v, n) }

// Fill repeats a value up to the row count.
func (c U16Col) Fill(b *Batch, v uint16) { fill(&b.u16[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c U16Col) Slice(b *Batch) *[]uint16 { return &b.u16[c] }

// Append adds one value.
func (c U32Col) Append(b *Batch, v uint32) { b.u32[c] = append(b.u32[c], v) }

// AppendN adds a value n times.
func (c U32Col) AppendN(b *Batch, v uint32, n int) { more(&b.u32[c], v, n) }

// Fill repeats a value up to the row count.
func (c U32Col) Fill(b *Batch, v uint32) { fill(&b.u32[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c U32Col) Slice(b *Batch) *[]uint32 { return &b.u32[c] }

// Append adds one value.
func (c U64Col) Append(b *Batch, v uint64) { b.u64[c] = append(b.u64[c], v) }

// AppendN adds a value n times.
func (c U64Col) AppendN(b *Batch, v uint64, n int) { more(&b.u64[c], v, n) }

// Fill repeats a value up to the row count.
func (c U64Col) Fill(b *Batch, v uint64) { fill(&b.u64[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c U64Col) Slice(b *Batch) *[]uint64 { return &b.u64[c] }

// Append adds one value.
func (c I32Col) Append(b *Batch, v int32) { b.i32[c] = append(b.i32[c], v) }

// AppendN adds a value n times.
func (c I32Col) AppendN(b *Batch, v int32, n int) { more(&b.i32[c], v, n) }

// Fill repeats a value up to the row count.
func (c I32Col) Fill(b *Batch, v int32) { fill(&b.i32[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c I32Col) Slice(b *Batch) *[]int32 { return &b.i32[c] }

// Append adds one value.
func (c F32Col) Append(b *Batch, v float32) { b.f32[c] = append(b.f32[c], v) }

// AppendN adds a value n times.
func (c F32Col) AppendN(b *Batch, v float32, n int) { more(&b.f32[c], v, n) }

// Fill repeats a value up to the row count.
func (c F32Col) Fill(b *Batch, v float32) { fill(&b.f32[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c F32Col) Slice(b *Batch) *[]float32 { return &b.f32[c] }

// Append adds one value.
func (c I64Col) Append(b *Batch, v int64) { b.i64[c] = append(b.i64[c], v) }

// AppendN adds a value n times.
func (c I64Col) AppendN(b *Batch, v int64, n int) { more(&b.i64[c], v, n) }

// Fill repeats a value up to the row count.
func (c I64Col) Fill(b *Batch, v int64) { fill(&b.i64[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c I64Col) Slice(b *Batch) *[]int64 { return &b.i64[c] }

// Append adds one value.
func (c F64Col) Append(b *Batch, v float64) { b.f64[c] = append(b.f64[c], v) }

// AppendN adds a value n times.
func (c F64Col) AppendN(b *Batch, v float64, n int) { more(&b.f64[c], v, n) }

// Fill repeats a value up to the row count.
func (c F64Col) Fill(b *Batch, v float64) { fill(&b.f64[c], v, b.Rows()) }

// Slice gives the column itself, to append to.
func (c F64Col) Slice(b *Batch) *[]float64 { return &b.f64[c] }

// Append adds one value.
func (c TimeCol) Append(b *Batch, ns int64) { b.i64[c] = append(b.i64[c], ns) }

// AppendN adds a value n times.
func (c TimeCol) AppendN(b *Batch, ns int64, n int) { more(&b.i64[c], ns, n) }

// Fill repeats a value up to the row count.
func (c TimeCol) Fill(b *Batch, ns int64) { fill(&b.i64[c], ns, b.Rows()) }

// Slice gives the column itself, to append to.
func (c TimeCol) Slice(b *Batch) *[]int64 { return &b.i64[c] }

// Append adds one value.
func (c DayCol) Append(b *Batch, day int32) { b.i32[c] = append(b.i32[c], day) }

// AppendN adds a value n times.
func (c DayCol) AppendN(b *Batch, day int32, n int) { more(&b.i32[c], day, n) }

// Fill repeats a value up to the row count.
func (c DayCol) Fill(b *Batch, day int32) { fill(&b.i32[c], day, b.Rows()) }

// Slice gives the column itself, to append to.
func (c DayCol) Slice(b *Batch) *[]int32 { return &b.i32[c] }
