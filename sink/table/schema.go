package table

import (
	"fmt"
	"io/fs"
	"maps"
	"text/template"
)

// Source is what one source of data adds to the tables and views that sources share. Its package imports this one; this one does not know
// any source.
type Source struct {
	Name   string   // the source's name in every stage; "" is what all share
	Tables []*Table // in the order in which they are created
	// Views has the files views/<name>.sql. Each begins with comment lines, a sentence that says what a row is. What follows is the SELECT,
	// a text/template; it may use the templates and functions that all share, and refers to tables and views as {{db}}.name.
	Views fs.FS
	// Funcs are the functions of these templates, besides those that all share.
	Funcs template.FuncMap
	// Arguments are, by view, arguments for a first try of a view that takes parameters.
	Arguments map[string]string
}

// Schema has all tables and views of a database: those that sources share, then those of each source. It is made once and does not change.
type Schema struct {
	sources []Source
	tables  []*Table
	byName  map[string]*Table
	views   []View // in the order in which they are created, without bodies

	templates *template.Template
}

// NewSchema puts together what sources share and what each adds. Two tables or views with one name, a view that refers to something that is
// not there, and views that refer to each other in a circle are errors.
func NewSchema(sources ...Source) (*Schema, error) {
	s := &Schema{sources: append([]Source{shared()}, sources...), byName: map[string]*Table{}}
	for i := range s.sources {
		for _, t := range s.sources[i].Tables {
			if s.byName[t.Name] != nil {
				return nil, fmt.Errorf("schema: there are two tables %s: rename that of source %q", t.Name, s.sources[i].Name)
			}
			s.byName[t.Name] = t
			s.tables = append(s.tables, t)
		}
	}
	err := s.readViews()
	if err == nil {
		err = s.sortViews()
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

// Tables returns every table, in the order in which they are created. The slice must not be changed. A nil Schema has none.
func (s *Schema) Tables() []*Table {
	if s == nil {
		return nil
	}
	return s.tables
}

// Table returns the table of that name in ClickHouse, nil when there is none.
func (s *Schema) Table(name string) *Table { return s.byName[name] }

// WithoutViews returns the tables alone, for a database whose views nobody reads: ClickHouse makes the views in some eight times the time
// of the tables.
func (s *Schema) WithoutViews() *Schema {
	bare := *s
	bare.views = nil
	return &bare
}

// Sources returns what the schema is made of: what sources share, whose name is "", then each source. The slice must not be changed.
func (s *Schema) Sources() []Source { return s.sources }

// shared is what sources share.
func shared() Source {
	return Source{Views: viewFiles, Tables: []*Table{
		Memsets.Table, Syncs.Table, Allocations.Table, Markers.Table, ExtraFields.Table, SyncStats.Table, MemcpyStats.Table, PMStats.Table,
		SourceLines.Table, SASSLines.Table, PTX.Table, SessionSources.Table, SessionFunctions.Table, PerfMetrics.Table, PMSamples.Table,
		Dictionaries.Table, SessionEnds.Table, Graphs.Table, GraphNodes.Table, KernelStats.Table, Kernels.Table, Launches.Table,
		LaunchConfigs.Table, KernelDetails.Table, Ledger.Table, Memcpys.Table, HostMetrics.Table, DeviceMetrics.Table,
		HostMetrics1m.Table, DeviceMetrics1m.Table, PCSamples.Table, PCBuckets.Table, PCCubins.Table, KernelStacks.Table,
		SessionStacks.Table, StackFrames.Table, Cubins.Table, CubinFunctions.Table, CubinLines.Table, SessionLabels.Table,
		ProfileMetrics.Table, SourceMap.Table, Rejects.Table, RejectReplays.Table, AdminLog.Table, Segments.Table,
		Scopes.Table, ScopeStats.Table, Sessions.Table, Devices.Table, Synthetic.Table, DeepWindows.Table, Usage.Table, Stored.Table,
		Books.Table,
	}}
}

// funcs are the functions of all views, for the database that o names.
func (s *Schema) funcs(o Options) template.FuncMap {
	funcs := s.sharedFuncs(o)
	for i := range s.sources {
		maps.Copy(funcs, s.sources[i].Funcs)
	}
	return funcs
}
