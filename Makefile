# What has to hold at every commit. .ci/run runs these targets, one after the other; CONTRIBUTING.md says how long each takes.
# Needs Go; the tests that ask ClickHouse also need its library.

GO ?= go
# How long each fuzz target runs.
FUZZTIME ?= 2s
# A package that kills and restarts things takes minutes on two cores; a machine half as fast must not end it at go's ten.
TIMEOUT ?= 60m
# What starts goroutines. sink/table starts none: its tests are questions to ClickHouse.
RACE ?= ./broker/... ./aggregate/... ./ingest/... ./sink ./sink/engine/... ./cmd/warpline/replay

# Kernels of the bench, 0: 16 M columnar and 6 M full. JetStream keeps what it touched for ten seconds, so a shorter load does not see all.
BENCHKERNELS ?= 0

.PHONY: check test vet race fuzz demo bench generate

check: test vet

# The packages whose tests take longest begin first, so that none of them is left alone at the end.
LONGEST ?= ./cmd/warpline/e2e ./sink ./cmd/warpline ./aggregate ./cmd/warpline/bench

# Three packages at once on two cores: tests that kill and restart things mostly wait.
test:
	$(GO) test -p 3 -timeout $(TIMEOUT) $(LONGEST) ./...

vet:
	$(GO) vet ./...
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then printf 'run gofmt -w on:\n%s\n' "$$unformatted"; exit 1; fi

race:
	$(GO) test -timeout $(TIMEOUT) -race -short $(RACE)
	$(GO) test -timeout $(TIMEOUT) -race -run 'SlotsChangeHands|WaysToAsk' ./query/tenantsql

fuzz:
	GO="$(GO)" FUZZTIME="$(FUZZTIME)" .ci/fuzz

demo:
	$(GO) run ./cmd/warpline demo

# Figures in parts of those that are recorded. Noise does not fail it; counts that are wrong do.
bench:
	$(GO) run ./cmd/warpline bench --workload columnar,full --kernels $(BENCHKERNELS) --no-latency --no-rest --against cmd/warpline/bench/figures.json

# docs/sql.md
generate:
	$(GO) generate ./docs
