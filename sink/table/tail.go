package table

// FillTail completes the rows of b with what one chunk shares: retention_days of partition p, the partition of the ROWS stream
// and its chunk number. Callers append received_at or received_day row by row and leave these three out.
func (b *Batch) FillTail(p Partition, rowsPartition uint16, chunk uint64) {
	n := b.Rows()
	t := b.table
	fill(&b.u16[t.Column("retention_days").slot], p.RetentionDays, n)
	fill(&b.u16[t.Column("rows_partition").slot], rowsPartition, n)
	fill(&b.u64[t.Column("chunk").slot], chunk, n)
}
