# Felix: what a person and CI run. `make help` lists the targets; docs/ and README.md explain the system.
#
# A machine that has Go 1.26 needs nothing else for `make run`, `make test` and `make lint`. `make compat`, `make bench` and
# `make campaign` bring other clients in (Java 17, Maven, Python 3, Node, a C compiler): compat/install.sh installs them.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO          ?= go
BIN         := bin
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PKG         := github.com/felixlog/felix
LDFLAGS     := -s -w -X $(PKG)/internal/node.Version=$(VERSION) -X $(PKG)/internal/ctl.Version=$(VERSION)

# Go's race detector needs a C compiler; without one the tests still run, and say what was left out.
RACE        := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
TESTFLAGS   ?= $(RACE) -shuffle=on -tags invariants -timeout 20m
RUN         ?= .

FUZZTIME    ?= 10s
SEED        ?= 1
STEPS       ?= 20000
KIND        ?= kill
N           ?= 10
PEER        ?= felix
ARGS        ?=

# The tests that hold a codec against bytes that it did not make: other libraries', or those that are kept in testdata.
VECTORS      = ^Test(.*Vector.*|.*AgainstClientLibrary|.*ReadsOtherEncoders|.*DecodesLikeKmsg|SchemasMatchKmsg|XXH32|FormatVersion1)$$

# Tools are pinned by a module file each, so that the server's go.mod stays free of them.
tool         = $(GO) tool -modfile=$(CURDIR)/internal/tools/$(1).mod $(1)
# What goes into a formatter: every Go file of the tree, tracked or new, but not a generated or vendored one.
GOFILES      = $$(git ls-files --cached --others --exclude-standard '*.go' | xargs -r ls 2>/dev/null)

# The module files of compat: programs that the server is not linked with. Those that need cgo (librdkafka) are compiled by `make compat`.
COMPAT       = $(patsubst %/go.mod,%,$(wildcard compat/go.mod compat/*/go.mod compat/*/*/go.mod))
COMPATGO     = $(filter-out %/rdkafka1 %/rdkafka2,$(COMPAT))

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk 'BEGIN {FS = ":.*## "} {printf "  %-10s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build bin/felix and bin/felixctl: static, stripped, profile-guided where cmd/felix/default.pgo exists.
	@mkdir -p $(BIN)
	@echo 'building felix and felixctl: about a minute the first time, seconds later' >&2
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/felix ./cmd/felixctl

.PHONY: run
run: build ## Start one node: Kafka on 127.0.0.1:9092, metrics on 127.0.0.1:8080, data in ./data.
	exec ./$(BIN)/felix serve

.PHONY: test
test: ## Run every test that needs only Go: race detector, shuffled, invariants on.
	@[ -n "$(RACE)" ] || echo 'make test: no C compiler found, so the race detector is off' >&2
	$(GO) test $(TESTFLAGS) -run '$(RUN)' ./...
	cd compat && $(GO) test $(TESTFLAGS) -run '$(RUN)' ./campaign
	cd compat/bench && $(GO) test $(TESTFLAGS) -run '$(RUN)' ./...

.PHONY: check
check: lint test ## Lint, then test.

.PHONY: lint
lint: ## Check formatting, go.mod, generated files, vet and the linters; nothing is rewritten.
	@echo 'lint: formatting'
	@unformatted=$$($(call tool,gofumpt) -l -extra $(GOFILES)); \
	  [ -z "$$unformatted" ] || { printf 'not gofumpt-clean (run make fmt):\n%s\n' "$$unformatted"; exit 1; }
	@unsorted=$$($(call tool,gci) list -s standard -s default -s 'prefix($(PKG))' --custom-order $(GOFILES)); \
	  [ -z "$$unsorted" ] || { printf 'imports not sorted (run make fmt):\n%s\n' "$$unsorted"; exit 1; }
	@echo 'lint: go.mod'
	@$(GO) mod tidy -diff
	@for m in $(COMPAT); do $(GO) -C $$m mod tidy -diff; done
	@echo 'lint: generated files'
	@before=$$(git diff | git hash-object --stdin); $(MAKE) -s generate; after=$$(git diff | git hash-object --stdin); \
	  [ "$$before" = "$$after" ] || { echo 'make generate changes files: commit what it wrote'; git diff --stat; exit 1; }
	@echo 'lint: vet'
	@$(GO) vet ./... && $(GO) vet -tags invariants ./...
	@echo 'lint: golangci-lint'
	@$(call tool,golangci-lint) run ./...
	@for m in $(COMPATGO); do (cd $$m && $(GO) vet ./... && $(call tool,golangci-lint) run -c $(CURDIR)/.golangci.yml ./...); done
	@echo 'lint: imports and package rules'
	@$(GO) test -count=1 ./internal/archtest

.PHONY: fmt
fmt: ## Rewrite Go files as lint wants them.
	@$(call tool,gofumpt) -w -extra $(GOFILES)
	@$(call tool,gci) write -s standard -s default -s 'prefix($(PKG))' --custom-order $(GOFILES)

.PHONY: generate
generate: ## Rewrite the generated parts of docs/ and code.
	@$(GO) generate ./...
	@for m in $(COMPAT); do $(GO) -C $$m generate ./...; done

.PHONY: tidy
tidy: ## Tidy every module file.
	$(GO) mod tidy
	@for m in $(COMPAT); do $(GO) -C $$m mod tidy; done

.PHONY: vectors
vectors: ## Check the codecs byte for byte: batches and requests against the client library, native frames and files against testdata.
	$(GO) test -count=1 -run '$(VECTORS)' ./log/... ./kafkaproto/... ./felixproto/wire

.PHONY: sim
sim: ## Step the simulation from a seed: make sim SEED=7 STEPS=100000.
	FELIX_SIM_SEED=$(SEED) FELIX_SIM_STEPS=$(STEPS) $(GO) test -tags invariants -count=1 -timeout 0 -run '^TestSim' ./replica/... ./log/...

.PHONY: fuzz
fuzz: ## Run every fuzz target in turn for FUZZTIME each: make fuzz FUZZTIME=10m.
	@GO='$(GO)' internal/tools/fuzz.sh '$(FUZZTIME)'

.PHONY: compat
compat: build ## Install the other clients, then run raw requests, clients, Streams, Connect and the native clients: make compat PEER=felix|kafka|host:port.
	compat/install.sh
	cd compat && PEER='$(PEER)' $(GO) test -count=1 -timeout 30m -run '$(RUN)' ./raw/... ./clients/...
	cd compat && PEER='$(PEER)' $(GO) test -count=1 -timeout 30m -p 1 -run '$(RUN)' ./streams/... ./connect/... ./native/... ./client/...

.PHONY: bench
bench: build ## Compare with Apache Kafka on this machine; writes docs/benchmarks.md: make bench ARGS='-rows P1,P4'.
	cd compat/bench && $(GO) run . $(ARGS)

.PHONY: campaign
campaign: build ## A campaign: make campaign KIND=kill|disk|hostile|groups|soak|streams|connect|native|client|fuzz N=200 SEED=1; soak, native, fuzz: N minutes.
	$(if $(filter hostile native client fuzz,$(KIND)),,compat/install.sh)
	cd compat && $(GO) run ./campaign -kind '$(KIND)' -n '$(N)' -seed '$(SEED)' $(ARGS)

.PHONY: cover
cover: ## Coverage of every package into cover.html.
	$(GO) test -tags invariants -coverprofile=cover.txt -coverpkg=./... ./...
	$(GO) tool cover -html=cover.txt -o cover.html
	@$(GO) tool cover -func=cover.txt | tail -1

.PHONY: clean
clean: ## Remove what the build made; the data directory stays.
	rm -rf $(BIN) cover.txt cover.html
