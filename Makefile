# `make help` lists the targets. Outside settings of GOFLAGS, GOPROXY and KUBEBUILDER_ASSETS are honoured.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
GO ?= go

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
STAMP := quaymaster.dev/internal/version
# What k8s.io's libraries log and serve as their version. They panic at start unless it begins like v1.2.3, which the name of a
# commit does not.
KUBE_STAMP := k8s.io/component-base/version
KUBE_VERSION := $(if $(shell echo '$(VERSION)' | grep -E '^v[0-9]+\.[0-9]+\.[0-9]+([-+]|$$)'),$(VERSION),v0.0.0-g$(VERSION))
LDFLAGS := -s -w -X $(STAMP).version=$(VERSION) -X $(STAMP).commit=$(COMMIT) \
	-X $(KUBE_STAMP).gitVersion=$(KUBE_VERSION) -X $(KUBE_STAMP).gitCommit=$(COMMIT)

# What each target runs, so that nobody builds more tools than he needs.
DEV_TOOLS := etcd kube-apiserver kubectl kube-controller-manager helm kwok
TEST_TOOLS := $(DEV_TOOLS) promtool
VERIFY_TOOLS := helm golangci-lint controller-gen

# What `make image` builds, on what and with what.
BASE ?= scratch
IMAGE ?= quaymaster:$(VERSION)
BUILDER ?= $(firstword $(foreach builder,podman docker buildah,$(shell command -v $(builder) 2>/dev/null)))

FUZZTIME ?= 10s
# The race detector needs a C compiler. Test binaries are built with it or not at all, since everything they import
# would otherwise be compiled once more.
RACE ?= $(if $(shell command -v cc 2>/dev/null),-race)

# Tests that import test/env run a control plane; those of test/dev run the whole demonstration, and
# those of test/e2e need a cluster.
TESTED = $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -v '^quaymaster.dev/test/\(dev\|e2e\) '
UNIT = $(shell $(TESTED) | grep -v quaymaster.dev/test/env | grep -v quaymaster.dev/test/architecture | cut -d ' ' -f 1)
INTEGRATION = $(shell $(TESTED) | grep quaymaster.dev/test/env | cut -d ' ' -f 1)

##@ Build

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { print "\n" substr($$0, 5) } /^[a-z%-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/quaymaster, bin/quayctl (kubectl quay) and bin/mycloud, static and version-stamped.
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
	@ln -sf quayctl bin/kubectl-quay

.PHONY: image
image: ## Build the image IMAGE with podman, docker or buildah, whichever is there (or BUILDER).
	@[ -n "$(BUILDER)" ] || { echo "image: there is no podman, docker or buildah; install one, or name another with BUILDER=" >&2; exit 1; }
	@# In a folder of its own, so that nothing else is sent to the builder.
	@mkdir -p bin/image
	@CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/image/quaymaster ./cmd/quaymaster
	@$(BUILDER) build --file Containerfile --tag $(IMAGE) --build-arg BASE=$(BASE) --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) bin/image

.PHONY: reproducible
reproducible: ## Build quaymaster twice from nothing and compare the two (minutes).
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	for build in first second; do \
		echo "building quaymaster, the $$build time"; \
		CGO_ENABLED=0 GOCACHE=$$folder/cache-$$build $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o "$$folder/$$build" ./cmd/quaymaster || exit 1; \
	done && \
	cmp "$$folder/first" "$$folder/second" && echo "both are sha256:$$(openssl dgst -sha256 -r "$$folder/first" | cut -d ' ' -f 1)"

.PHONY: tools
tools: ## Build every pinned tool into bin/tools (minutes the first time).
	@tools/build.sh

tool-%: ## Build one pinned tool, as in tool-etcd.
	@tools/build.sh $*

.PHONY: generate
generate: ## Write the generated files anew.
	@tools/build.sh controller-gen
	@# Without cgo, so that it needs no C compiler to read the types. The programs are built from what it writes.
	@CGO_ENABLED=0 bin/tools/controller-gen object paths=./api/... crd paths=./api/... output:crd:artifacts:config=charts/quaymaster/files/crds
	@$(MAKE) build
	@CGO_ENABLED=0 $(GO) run ./docs/gen docs/reference
	@bin/mycloud openapi > docs/reference/.mycloud-openapi.yaml
	@mv docs/reference/.mycloud-openapi.yaml docs/reference/mycloud-openapi.yaml
	@$(GO) run ./docs/gen docs/reference

.PHONY: clean
clean: ## Remove what was built and the demonstration's state, but keep the tools.
	@rm -rf .dev bin/quaymaster bin/quayctl bin/kubectl-quay bin/mycloud bin/dev bin/image

.PHONY: distclean
distclean: clean ## Remove the tools as well.
	@rm -rf bin

##@ Run

.PHONY: dev
dev: not-ready build-dev ## Run a demonstration in the foreground until Ctrl-C (DEV_FLAGS=--keep-state goes on with the last one).
	@bin/dev --stop-with-parent $(DEV_FLAGS)

# A run that was killed leaves .dev/ready behind; nobody should take it for this run's while that is still being built.
.PHONY: not-ready
not-ready:
	@[ ! -e .dev/lock ] || ! command -v flock >/dev/null || flock --nonblock .dev/lock rm -f .dev/ready || true

.PHONY: build-dev
build-dev:
	@tools/build.sh $(DEV_TOOLS)
	@echo "building quaymaster, mycloud and the demonstration"
	@$(MAKE) build
	@CGO_ENABLED=0 $(GO) build -trimpath -o bin/dev ./test/dev

##@ Check

.PHONY: test
test: test-unit test-integration test-dev ## Run every test: unit, real API server, demonstration.

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go, with the race detector.
	@$(MAKE) build
	@echo "unit tests$(if $(RACE), with the race detector)"
	@$(GO) test $(RACE) -timeout 10m $(UNIT)
	@# It asks the go command what imports what, which the test cache does not see.
	@$(GO) test -count=1 ./test/architecture

.PHONY: test-integration
test-integration: ## Run the tests on a real API server.
	@tools/build.sh $(TEST_TOOLS)
	@$(MAKE) build
	@echo "integration tests on a real API server"
	@$(GO) test $(RACE) -count=1 -p 1 -timeout 20m $(INTEGRATION)

.PHONY: test-dev
test-dev: build-dev ## Run the demonstration and try on it what it promises.
	@echo "the demonstration, end to end"
	@$(GO) test $(RACE) -count=1 -timeout 15m ./test/dev

.PHONY: e2e
e2e: ## Install the chart into the cluster of KUBECONFIG, which has cert-manager, and check it there (E2E_VALUES=file).
	@tools/build.sh kubectl helm
	@$(MAKE) build
	@$(GO) test -count=1 -timeout 20m -v ./test/e2e

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s).
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file) || exit 1; \
		done; \
	done

.PHONY: bench
bench: ## Run the benchmarks.
	@$(GO) test -run '^$$' -bench . -benchmem ./internal/... ./webhook/... ./provider/... ./controllers/...

.PHONY: verify
verify: ## Check format, lint, chart, modules and generated files; fail on a dirty tree.
	@tools/build.sh $(VERIFY_TOOLS)
	@unformatted=$$(gofmt -l .); \
		[ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	@CGO_ENABLED=0 bin/tools/golangci-lint run ./...
	@bin/tools/helm lint --strict --quiet charts/quaymaster
	@for module in . tools/*/; do \
		(cd $$module && $(GO) mod tidy -diff >/dev/null) || { echo "not tidy, run: (cd $$module && go mod tidy)"; exit 1; }; \
	done
	@$(MAKE) generate
	@changes=$$(git status --porcelain); \
		[ -z "$$changes" ] || { echo "the tree is dirty: commit these files, after make generate or by hand:"; echo "$$changes"; exit 1; }
	@echo "verified"
