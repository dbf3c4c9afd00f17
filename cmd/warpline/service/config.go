package service

import (
	"io"
	"log/slog"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table"
)

// Config is what all roles in one process need. Who fills it has checked it.
type Config struct {
	// Dir is the data folder. It is made where it is missing.
	Dir string
	// Listen is where the gateway takes uploads, as host:port; port 0 is any free one. PathPrefix is a second place for its paths, "" for
	// none.
	Listen, PathPrefix string
	// MetricsListen is where /metrics, /healthz and /readyz are beside Listen, as host:port; "" for nowhere. Where others than this machine
	// can reach Listen, /metrics is not there.
	MetricsListen string
	// AdminListen is where the admin API is, as host:port; "" for nowhere. It is on Listen too where this machine alone can reach that.
	AdminListen string
	// MetricsTenants is how many tenants have series of their own in the metrics.
	MetricsTenants int
	// UIURL is where people see sessions, for answers that say so; "" is nowhere.
	UIURL string
	// GRPCListen is where it takes gRPC, as Listen; "" for nowhere. GRPCClientCA is a PEM file of those who sign the certificates of its
	// clients, which are then asked for; "" for none.
	GRPCListen, GRPCClientCA string
	// TLSCert and TLSKey are PEM files for both; both are "" without TLS. TLSClientCA is to Listen what GRPCClientCA is to GRPCListen.
	TLSCert, TLSKey, TLSClientCA string
	// NATS is that of others; its zero value starts one in this process, with its files in the data folder.
	NATS NATS
	// NATSListen is where that one listens, as host:port; "" for nowhere.
	NATSListen string
	// ClickHouse is that of others. Without a Native address the engine is started beside this process; then only Database counts.
	ClickHouse ClickHouse
	// EngineHTTP and EngineTCP are the engine's ports; 0 is any free one.
	EngineHTTP, EngineTCP int
	// EngineMemory is the most that the engine may take, in bytes.
	EngineMemory int64
	// SQLTenants is how many tenants can ask the engine at once; 0: tenants cannot ask. NoOpenSQL leaves out its user reader, who reads the
	// rows of all.
	SQLTenants int
	NoOpenSQL  bool
	// Fsync makes NATS and ClickHouse wait for the disk before they acknowledge.
	Fsync bool
	// Layout is that of the streams where they have to be made; its zero value is not a layout.
	Layout broker.Layout
	// StoreMax is the most that the NATS of this process may write, in bytes; 0 takes it from the free space.
	StoreMax int64
	// DevKey is a fixed key for tenant "dev"; "" for none.
	DevKey string
	// Limits are those of keys that have none of their own; a zero is the default of tenant.DefaultLimits.
	Limits tenant.Limits
	// Classes are the retention classes; none is class default alone, with the days of Limits.
	Classes tenant.Classes
	// Tenants is a file that declares tenants.
	Tenants TenantFile
	// SinkInterval and ChunkAge are sink.Config.MinInterval and aggregate.Config.ChunkAge.
	SinkInterval, ChunkAge time.Duration
	// ReplayWindow is sink.Config.ReplayWindow.
	ReplayWindow time.Duration
	// RejectsMax is how many bytes of rejects are kept of a tenant; 0: any number.
	RejectsMax int64
	// NamesMemory bounds the worker's names, in bytes; 0 is its default.
	NamesMemory int64
	// Sources are given to each role; without any nothing can be sent.
	Sources Sources
	// Version is the program's; answers, chunks and warpline.json have it.
	Version string
	// Log is where the roles and the watch write; not nil.
	Log *slog.Logger
	// Progress shows how far the fetch of the engine is: words, and bars on a terminal.
	Progress io.Writer
	// Step is called with what is being started, from the goroutine that calls Start: "engine", "nats", "roles". It may be nil.
	Step func(what string)
}

// Sources are the sources of data, as each stage knows them.
type Sources struct {
	Doors  []ingest.Source    // of the gateway
	Folds  []aggregate.Source // of the worker
	Schema *table.Schema      // tables and views of all of them
}

// NATS is a NATS that others run.
type NATS struct {
	URL             string // as nats://host:4222,nats://other:4222; "" for none
	CredentialsFile string // "" for none
}
