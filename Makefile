# Everything is made with Go, a C compiler and npm. `make help` lists the targets.

GO ?= go
TOOL = $(GO) tool -modfile=tools.mod
BUILD = build
LOANS = testdata/loans
FUZZTIME ?= 10s
# Programs without debug information: a third less to compile and to keep. All share one compiled standard library.
STRIPPED = -trimpath -gcflags=all=-dwarf=false -ldflags '-s -w'
# Go's own linker takes a third less than the system's; elsewhere than on Linux it may not know the C objects.
# Binaries of tests stay in build/tests: those that nothing changed need not be linked again.
TESTLINK = -o $(CURDIR)/$(BUILD)/tests/ -ldflags='-s -w $(if $(filter Linux,$(shell uname -s)),-linkmode=internal)'
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty)
GOSRC = $(shell find . -name '*.go' -not -name '*.pb.go' -not -path './$(BUILD)/*')

# Generators and tests with heavy dependencies are a module of their own.
TOOLS = internal/tools
SHARED ?= ../shared

export CGO_ENABLED = 1
# Without this a third of the compiler's processor time goes to collecting garbage.
export GOFLAGS += '-toolexec=env GOGC=off GOMEMLIMIT=1GiB'

.DEFAULT_GOAL := build
.PHONY: help build ort tools test long lint fmt generate drift compare demo pipelines container page shapes spark bench fuzz module release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ort ## build bin/cfq
	$(GO) build $(STRIPPED) -o bin/cfq ./cmd/cfq

ort: ## fetch the pinned ONNX Runtime library into the cache, if it is not there
	@$(GO) run -C $(TOOLS) $(STRIPPED) ./ortfetch

test: ort ## run the tests (CFQ_REQUIRE_ORT=1: tests that need ONNX Runtime fail without it)
	@$(GO) build -C $(TOOLS) -o ../../$(BUILD)/tools/ ./testlog
	@GOGC=400 $(GO) test -vet=off $(TESTLINK) -json ./... | $(BUILD)/tools/testlog # make lint vets
	@GOGC=400 $(GO) -C $(TOOLS) test -vet=off $(TESTLINK) -json ./... | $(BUILD)/tools/testlog

long: ort ## simulations of statistics, attacks on gates, many uses of each operator, which take minutes
	CFQ_LONG=1 $(GO) test -timeout 90m ./eval ./eval/gate ./onnxio/autodiff ./ptq ./recourse ./task/...
	CFQ_LONG=1 $(GO) -C $(TOOLS) test -v ./command -run 'TestAttacks|TestOtherToolsFiles'

lint: ## check the format and run the linters (the first run compiles them)
	@unformatted=$$($(TOOL) gofumpt -l $(GOSRC)); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofumpt:"; echo "$$unformatted"; exit 1; fi
	$(TOOL) golangci-lint run ./...
	cd $(TOOLS) && $(GO) tool -modfile=../../tools.mod golangci-lint run ./...
	GOOS=windows CGO_ENABLED=0 $(GO) vet ./internal/tempfile ./internal/extsort ./internal/cli

fmt: ## format the source
	@$(TOOL) gofumpt -w $(GOSRC)

tools: ## build the generators
	@$(GO) build -C $(TOOLS) -o ../../$(BUILD)/tools/ ./docgen ./pipelines

generate: tools ## write the generated files
	$(BUILD)/tools/docgen

drift: tools ## check that generated files are what their generators make
	$(BUILD)/tools/docgen -check

compare: build ## measure other tools, in fresh virtual environments, for docs/comparison.md: make compare SHARED=DIR PYTHON=python3.11
	$(or $(PYTHON),python3) bench/compare.py --shared $(SHARED)

demo: build ort ## quantize the example loan model and evaluate it
	@mkdir -p $(BUILD)
	bin/cfq quantize $(LOANS)/model.onnx -d $(LOANS)/train.csv -t $(LOANS)/task.yaml --method cf-ptq --budget 4.0 --overwrite -o $(BUILD)/loans.q.onnx
	bin/cfq eval $(LOANS)/model.onnx $(BUILD)/loans.q.onnx -d $(LOANS)/test.csv -t $(LOANS)/task.yaml

pipelines: release tools ## run the pipelines of action.yml and examples/ci on this machine
	$(BUILD)/tools/pipelines

container: release ## install the release and run the quick start in clean containers (podman or docker)
	@examples/container.sh

page: ort ## look at HTML reports in headless Chromium (CFQ_CHROMIUM or the PATH names it)
	CFQ_REQUIRE_CHROMIUM=1 $(GO) -C $(TOOLS) test -count=1 -timeout 20m -run Pages ./command

shapes: ## generate images with known attributes in build/shapes
	@mkdir -p $(BUILD)/shapes
	@$(GO) run -C $(TOOLS) ./shapesgen -o $(abspath $(BUILD))/shapes

spark: build ## run recourse and evaluation on an Apache Spark cluster on this machine: make spark PEOPLE=1000000
	@examples/spark/run.sh

bench: ort ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@$(GO) list -f '{{$$d := .ImportPath}}{{if or .TestGoFiles .XTestGoFiles}}{{$$d}}{{end}}' ./... | while read -r pkg; do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg </dev/null | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg </dev/null || exit 1; \
		done; \
	done

module: ## rewrite the module path: make module MODULE=example.org/team/cfq
	@test -n "$(MODULE)" || { echo "make module: want MODULE=path"; exit 2; }
	git ls-files '*.go' .golangci.yml | xargs perl -pi -e 's{(")cfq(/[a-z])}{$$1$(MODULE)$$2}g; s{\(\*cfq/}{(*$(MODULE)/}g; s{(module += )"cfq"}{$$1"$(MODULE)"}'
	$(GO) mod edit -module=$(MODULE)
	$(GO) mod edit -module=$(MODULE)/$(TOOLS) -droprequire=cfq -dropreplace=cfq \
		-require=$(MODULE)@v0.0.0 -replace=$(MODULE)=../.. $(TOOLS)/go.mod
	$(GO) build ./... && $(GO) build -C $(TOOLS) ./...

release: export CFQ_ORT_LIB =
release: ARCHIVE = cfq-$(VERSION)-$(shell $(GO) env GOOS)-$(shell $(GO) env GOARCH)
release: build ## pack cfq and its library for this platform in build/release, with install.sh and SHA256SUMS
	@rm -rf $(BUILD)/release
	@mkdir -p $(BUILD)/release/$(ARCHIVE)
	@cp bin/cfq "$$(bin/cfq doctor | sed -n 's/^library *//p')" onnxio/ort/ONNXRUNTIME-LICENSE LICENSE NOTICE README.md \
		examples/ci/gate.sh $(BUILD)/release/$(ARCHIVE)
	@tar -C $(BUILD)/release -czf $(BUILD)/release/$(ARCHIVE).tar.gz $(ARCHIVE)
	@rm -r $(BUILD)/release/$(ARCHIVE)
	@cp examples/ci/install.sh $(BUILD)/release
	@cd $(BUILD)/release && $$(command -v sha256sum || echo shasum -a 256) $(ARCHIVE).tar.gz install.sh >SHA256SUMS

clean: ## remove what was built here; the cache stays
	rm -rf bin $(BUILD)
