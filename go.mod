module github.com/warpline/warpline

go 1.26.0

require (
	github.com/ClickHouse/ch-go v0.74.0 // ClickHouse's own compression, in which a tenant's client may want an error
	github.com/ClickHouse/clickhouse-go/v2 v2.50.0 // queries, inserts of Arrow streams over HTTP
	github.com/RoaringBitmap/roaring/v2 v2.30.0 // which correlation ids of a session were seen
	github.com/alecthomas/kong v1.17.0 // the command line, with settings from a file and the environment
	github.com/apache/arrow/go/v17 v17.0.0 // the rows between worker and ClickHouse
	github.com/cenkalti/backoff/v5 v5.0.3 // pauses between restarts of the engine
	github.com/dustin/go-humanize v1.1.0 // sizes, counts and times for people
	github.com/ebitengine/purego v0.11.3 // opens the embedded engine without a C compiler
	github.com/google/pprof v0.0.0-20261016150608-1facf8f91b50 // profiles of kernels and stalls for other viewers
	github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724 // names of C++ kernels
	github.com/klauspost/compress v1.20.3 // S2 for parts and chunks, fast gzip for the bench
	github.com/moogar0880/problems v1.0.1 // errors as RFC 9457 documents
	github.com/nats-io/nats-server/v2 v2.15.2 // the embedded NATS
	github.com/nats-io/nats.go v1.55.0 // JetStream
	github.com/pierrec/lz4/v4 v4.1.27 // blocks of the buffers in Parca's Arrow records
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/prometheus/client_model v0.6.3 // metrics as tests read them
	github.com/prometheus/common v0.72.0 // reads metrics in the bench
	github.com/rivo/uniseg v0.4.7 // the width of names in reports
	github.com/schollz/progressbar/v3 v3.19.1 // progress on a terminal
	github.com/zeebo/xxh3 v1.1.0 // hashes in the state of sessions
	golang.org/x/sync v0.24.0 // goroutines that end with the first error; a semaphore of bytes in the sink
	golang.org/x/sys v0.49.0 // file locks, terminals, free space
	golang.org/x/term v0.47.0 // asks whether a person is looking
	golang.org/x/time v0.16.0 // rate limits of keys
	gonum.org/v1/plot v0.17.0 // draws the distributions of intra-kernel profiles
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261026165753-2ffab32bce7e // when a client of gRPC is to try again
	google.golang.org/grpc v1.85.0 // the protocol of Parca's agent
	google.golang.org/protobuf v1.36.12 // its messages
	gopkg.in/yaml.v3 v3.0.1 // the settings file
)

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/andybalholm/brotli v1.2.6 // indirect
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-faster/city v1.0.1 // indirect
	github.com/go-faster/errors v0.7.1 // indirect
	github.com/goccy/go-json v0.10.3 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/google/flatbuffers v24.3.25+incompatible // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/paulmach/orb v0.13.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/segmentio/asm v1.2.1 // indirect
	github.com/shopspring/decimal v1.5.0 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/exp v0.0.0-20240222234643-814bf88cf225 // indirect
	golang.org/x/image v0.30.0 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/telemetry v0.0.0-20260924152758-ed294f943157 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	golang.org/x/xerrors v0.0.0-20231012003039-104605ab7028 // indirect
)
