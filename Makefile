# `make help` lists the targets. GOFLAGS, GOPROXY and KUBEBUILDER_ASSETS are taken from the environment.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
GO ?= go

# Where a method is called by a name that only the running program knows, the linker keeps all methods of all types. Two
# libraries do so unless these tags are set: the validator (two thirds more code in quaymaster) and the pages that gRPC
# serves about its calls (half as much more in quaymaster-controllers), which nothing here serves. The third is promtool's:
# rules need no service discovery, whose clients of all clouds are most of its code.
TAGS := validator_novalidatefn,grpcnotrace,remove_all_sd
# With the same flags and versions (make align) for product, tests and tools, what they share is compiled once. No program
# is linked with debug information (DWARF), so it is not generated; GOGC makes compiler and linker, but not the programs,
# collect garbage less often. Each saves a fifth of the time.
export GOFLAGS := $(GOFLAGS) -trimpath -tags=$(TAGS) -gcflags=all=-dwarf=false '-toolexec=env GOGC=400'
export CGO_ENABLED := 0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
STAMP := quaymaster.dev/internal/version
# The version that the k8s.io libraries log and serve. They panic at startup unless it starts like v1.2.3, which a
# commit hash does not.
KUBE_STAMP := k8s.io/component-base/version
KUBE_VERSION := $(if $(shell echo '$(VERSION)' | grep -E '^v?[0-9]+\.[0-9]+\.[0-9]+([-+]|$$)'),v$(VERSION:v%=%),v0.0.0-g$(VERSION))
# The version of released files, of the packaged chart and the tag of its image: a semantic version without v.
CHART_VERSION := $(KUBE_VERSION:v%=%)
LDFLAGS := -s -w -X $(STAMP).version=$(VERSION) -X $(STAMP).commit=$(COMMIT) \
	-X $(KUBE_STAMP).gitVersion=$(KUBE_VERSION) -X $(KUBE_STAMP).gitCommit=$(COMMIT)

BUILD_FLAGS := -ldflags '$(LDFLAGS)'
# The programs of the image.
ROLES := ./cmd/quaymaster ./cmd/quaymaster-controllers ./cmd/quayctl
# build-for builds the programs $3 for the platform $1, such as linux/arm64, into the folder $2.
build-for = mkdir -p $2 && GOOS=$(firstword $(subst /, ,$1)) GOARCH=$(word 2,$(subst /, ,$1)) $(GO) build $(BUILD_FLAGS) -o $2/ $3
comma := ,
# The time in images and archives, so that a commit always results in the same ones.
EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0))

# The tools that each target runs, so that it builds no others.
DEV_TOOLS := etcd kube-apiserver kubectl kube-controller-manager
TEST_TOOLS := $(DEV_TOOLS) helm promtool
VERIFY_TOOLS := helm golangci-lint controller-gen

# Base, name, platforms and builder of the image for `make image`. By default, it has the tag that the chart installs: that
# of the chart in charts, unless VERSION is that of a release.
BASE ?= scratch
IMAGE ?= quaymaster:$(if $(filter v0.0.0-g%,$(KUBE_VERSION)),$(shell sed -n 's/^appVersion: "\(.*\)"/\1/p' charts/quaymaster/Chart.yaml),$(CHART_VERSION))
PLATFORMS ?= linux/$(shell $(GO) env GOARCH)
# An OpenPGP key, by name, and the file with it, which sign the chart; empty for no signature.
CHART_KEY ?=
CHART_KEYRING ?= $(HOME)/.gnupg/secring.gpg
# A key of cosign, which signs the files of a release, its image and its chart; empty for no signatures. COSIGN_PASSWORD is
# the password. Image and chart are named by digest.
COSIGN_KEY ?=
CHART ?=
# The files name no service. Without them, cosign would download such files, and write an entry into a public log.
SIGN_FLAGS = --key '$(COSIGN_KEY)' --signing-config tools/cosign/signing-config.json --trusted-root tools/cosign/trusted-root.json
BUILDER ?= $(firstword $(foreach builder,podman docker buildah,$(shell command -v $(builder) 2>/dev/null)))

# Where the files of a release will be downloaded from.
RELEASE_URL ?= https://quaymaster.dev/releases/$(KUBE_VERSION)

# Numbers of load balancers that make bench-cloud measures.
CLOUD_SIZES ?= 1000,10000,100000
FUZZTIME ?= 10s
SOAK ?= 10m
SEED ?= 1
STEPS ?=
FORMER ?= $(shell git describe --tags --abbrev=0 2>/dev/null)
KINDS ?=

# What make test-vendors compares: the name of a catalog, how many Services, and a folder with checkouts of those vendors'
# repositories that are not published as modules.
VENDOR ?=
CASES ?= 100000
SOURCES ?=

# How make bench-admission measures; see test/bench/admission. With these, it takes 10 to 15 minutes. PROFILES is a folder
# for CPU profiles, and BEFORE the program quaymaster of another build, which is then measured in the same rounds. benchstat
# states no difference for less than four rounds, and no confidence interval for less than six.
ROUNDS ?= 6
ATTACK_ROUNDS ?= 2
DURATION ?= 1.5s
CONCURRENCY ?= 1,8,32,200
ONLY ?=
BEFORE ?=
PROFILES ?=
# The sizes of clusters that make bench-controllers measures, as Services x Nodes; see test/bench/controllers.
SIZES ?= 100x100,1000x1000,10000x5000

# make verify vets everything; go test would vet all dependencies first, which takes longer than most tests. Tests are linked
# each time; without a symbol table, which stack traces do not need, that takes a fifth less.
GO_TEST = $(GO) test -vet=off -ldflags='-s -w'
# With RACE=1, the race detector is on, which needs a C compiler and everything compiled again. It watches only the process
# of a test, so it is off for tests that start the programs in bin and run no code of the product themselves.
RACE ?=
RACE_TEST = $(if $(RACE),CGO_ENABLED=1) $(GO_TEST) $(if $(RACE),-race)

# Tests that import test/harness/env run a control plane; tests in test/dev run the whole demonstration; those in test/page
# need a browser; tests in test/e2e need a cluster.
TESTED = $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -v '^quaymaster.dev/test/\(dev\|e2e\|e2e/traffic\|page\|safety\) '
UNIT = $(shell $(TESTED) | grep -v quaymaster.dev/test/harness/env | grep -v "quaymaster.dev/test/repo/\(architecture\|words\) " | cut -d ' ' -f 1)
ATTACKS = quaymaster.dev/test/adversarial quaymaster.dev/test/adversarial/tenants
INTEGRATION = $(shell $(TESTED) | grep quaymaster.dev/test/harness/env | cut -d ' ' -f 1)
# Integration tests whose process runs no code of the product that starts goroutines: they are in test, and import neither
# such code nor test/harness/cloud, which runs the reference cloud.
DRIVERS = $(shell $(TESTED) | grep quaymaster.dev/test/harness/env | grep '^quaymaster.dev/test/' | \
	grep -v 'quaymaster.dev/\(cmd\|certs\|controllers\|provider\|webhook\|internal/tool/doctor\|test/harness/cloud\)' | cut -d ' ' -f 1)

# longest-first moves the packages whose tests take longest to the front, so that none of them runs alone at the end.
LONGEST = $(addprefix quaymaster.dev/test/,edge $(addprefix integration/,availability chart webhook recovery operations export))
longest-first = $(filter $(LONGEST),$1) $(filter-out $(LONGEST),$1)

# The packages whose tests run the cloud. The demonstration and the attacks on admission have nothing to add.
CLOUD_USERS = $(shell $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | \
	grep 'quaymaster.dev/test/\(edge\|harness/cloud\|integration/\(operations\|policies\|volumes\)\)[] ]' | \
	grep -v '^quaymaster.dev/test/\(dev\|safety\) ' | cut -d ' ' -f 1)

# The minor versions of Kubernetes that make test-versions tests, next to that of tools/kubernetes, each with a module in
# test/repo/versions; and the packages of tests whose results depend on the API server.
VERSIONS ?= 1.35 1.36
VERSIONED ?= $(filter quaymaster.dev/test/integration/%,$(INTEGRATION))

##@ Build

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { print "\n" substr($$0, 5) } /^[a-z0-9%-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/quaymaster, bin/quaymaster-controllers, bin/quayctl (kubectl quay) and bin/mycloud as static binaries with version.
	@$(GO) build $(BUILD_FLAGS) -o bin/ ./cmd/...
	@ln -sf quayctl bin/kubectl-quay

.PHONY: image
image: ## Build the image IMAGE for PLATFORMS with podman, docker or buildah (or BUILDER); PUSH=1 sends it to its registry.
	@[ -n "$(BUILDER)" ] || { echo "image: podman, docker or buildah is required; install one, or set BUILDER=" >&2; exit 1; }
	@# In a separate folder, so that nothing else is sent to the builder.
	@rm -rf bin/image
	@$(foreach platform,$(subst $(comma), ,$(PLATFORMS)),$(call build-for,$(platform),bin/image/$(platform),$(ROLES)) && cp LICENSE bin/image/$(platform)/ && )true
	@cd tools/release && $(GO) run . -source $(CURDIR) -built $(CURDIR)/bin/image -licenses $(subst $(comma), ,$(PLATFORMS))
	@SOURCE_DATE_EPOCH=$(EPOCH) tools/image.sh $(BUILDER) $(IMAGE) $(PLATFORMS) bin/image \
		--build-arg BASE=$(BASE) --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT)

.PHONY: chart
chart: ## Package the chart of IMAGE into bin for an OCI registry, signed if CHART_KEY and CHART_KEYRING name a key.
	@tools/build.sh helm
	@# Artifact Hub shows the image that Chart.yaml names, and scans it.
	@rm -rf bin/chart && mkdir -p bin/chart && cp -R charts/quaymaster bin/chart/
	@sed 's|image: quaymaster:.*|image: $(IMAGE)|' charts/quaymaster/Chart.yaml >bin/chart/quaymaster/Chart.yaml
	@bin/tools/helm package bin/chart/quaymaster --destination bin --version $(CHART_VERSION) --app-version $(CHART_VERSION) \
		$(if $(CHART_KEY),--sign --key '$(CHART_KEY)' --keyring '$(CHART_KEYRING)')

.PHONY: release
release: build ## Write the files of a release to dist: archives, Debian packages, SBOMs, checksums (RELEASE_URL, IMAGE), signed with COSIGN_KEY.
	@rm -rf dist bin/release && mkdir -p dist
	@$(foreach platform,linux/amd64 linux/arm64,$(call build-for,$(platform),bin/release/$(platform),./cmd/...) && )true
	@$(foreach platform,darwin/amd64 darwin/arm64,$(call build-for,$(platform),bin/release/$(platform),./cmd/quayctl) && )true
	@for program in quayctl mycloud; do \
		manual=bin/release/manual/$$program && mkdir -p $$manual/completion && \
		SOURCE_DATE_EPOCH=$(EPOCH) bin/$$program man $$manual/man/man1 && gzip -9n $$manual/man/man1/* && \
		for shell in bash zsh fish; do bin/$$program completion $$shell >$$manual/completion/$$program.$$shell || exit 1; done || exit 1; \
	done
	@cd tools/release && $(GO) run . -version $(CHART_VERSION) -epoch $(EPOCH) -source $(CURDIR) -built $(CURDIR)/bin/release \
		-out $(CURDIR)/dist -url $(RELEASE_URL) -image $(IMAGE)
	@$(if $(COSIGN_KEY),tools/build.sh cosign && \
		bin/tools/cosign sign-blob $(SIGN_FLAGS) --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS && chmod 644 dist/SHA256SUMS.sigstore.json)

.PHONY: sign
sign: ## Sign IMAGE and CHART, NAME@sha256:DIGEST in a registry, with COSIGN_KEY.
	@[ -n '$(COSIGN_KEY)' ] || { echo "sign: set COSIGN_KEY to a private key of cosign" >&2; exit 1; }
	@# A tag may have moved since it was pushed.
	@for name in '$(IMAGE)' '$(CHART)'; do case $$name in *@sha256:*) ;; *) \
		echo "sign: IMAGE and CHART must be NAME@sha256:DIGEST, not \"$$name\"" >&2; exit 1 ;; esac; done
	@tools/build.sh cosign
	@# An image has a signature as a whole and one for each platform.
	@bin/tools/cosign sign $(SIGN_FLAGS) --recursive '$(IMAGE)' '$(CHART)'

.PHONY: test-release
test-release: release ## Test the files of a release and their signatures, and that writing them again results in the same bytes (takes minutes).
	@tools/build.sh cosign helm
	@rm -rf bin/first bin/keys && mv dist bin/first && mkdir bin/keys
	@COSIGN_PASSWORD=test bin/tools/cosign generate-key-pair --output-key-prefix bin/keys/cosign
	@COSIGN_PASSWORD=test $(MAKE) release COSIGN_KEY=bin/keys/cosign.key
	@diff -r --exclude SHA256SUMS.sigstore.json bin/first dist
	@$(GO_TEST) -count=1 ./test/repo/release -dist $(CURDIR)/dist
	@cd tools/cosign && $(GO_TEST) -count=1 . -dist $(CURDIR)/dist -keys $(CURDIR)/bin/keys
	@# What the key of the test has signed must not be published.
	@rm -r dist bin/keys && mv bin/first dist

.PHONY: reproducible
reproducible: ## Build the programs of the image twice from scratch and compare the results (takes minutes).
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	for build in first second; do \
		echo "building $(ROLES): $$build build"; \
		GOCACHE=$$folder/cache-$$build $(GO) build $(BUILD_FLAGS) -o "$$folder/$$build/" $(ROLES) || exit 1; \
	done && \
	diff -r "$$folder/first" "$$folder/second" && cd "$$folder/first" && \
	for program in *; do echo "reproducible: $$program sha256:$$(openssl dgst -sha256 -r $$program | cut -d ' ' -f 1)"; done

.PHONY: tools
tools: ## Build all pinned tools into bin/tools (takes minutes the first time).
	@tools/build.sh

tool-%: ## Build one pinned tool, for example tool-etcd.
	@tools/build.sh $*

.PHONY: align
align: ## Raise dependencies that the product shares with tools of its tests to one version each, so that they are compiled once.
	@tools/align.sh

.PHONY: generate
generate: ## Regenerate all generated files.
	@tools/build.sh controller-gen
	@$(GO) run ./internal/rules/catalog/library/compile internal/rules/catalog/catalogs internal/rules/catalog/library/compiled
	@$(GO_TEST) -count=1 -run '^(TestREADME|TestTemplates)$$' ./test/integration/chart -update
	@# The programs must be built after the code is generated.
	@bin/tools/controller-gen object paths=./api/... crd paths=./api/... output:crd:artifacts:config=charts/quaymaster/files/crds
	@$(MAKE) build
	@$(GO) run ./docs/gen docs/reference
	@bin/mycloud openapi > docs/reference/.mycloud-openapi.yaml
	@mv docs/reference/.mycloud-openapi.yaml docs/reference/mycloud-openapi.yaml
	@$(GO) run ./docs/gen docs/reference

.PHONY: site
site: ## Write the documentation as a static site with search into bin/site.
	@rm -rf bin/site
	@$(GO) run ./docs/site -version '$(VERSION)' bin/site
	@echo "site: bin/site; serve it with any web server, for example: python3 -m http.server --directory bin/site"

.PHONY: vendor-page
vendor-page: ## Copy the library of the page's plots, as tools/page pins it, to the sources of the page.
	@tools/page.sh vendor

.PHONY: clean
clean: ## Remove built programs and the state of the demonstration, but keep the tools.
	@rm -rf .dev dist bin/quaymaster bin/quaymaster-controllers bin/quayctl bin/kubectl-quay bin/mycloud bin/dev bin/image bin/image.tar \
		bin/release bin/first bin/keys bin/chart bin/bench bin/site bin/page bin/*.tgz bin/*.tgz.prov

.PHONY: distclean
distclean: clean ## Remove built programs, state and tools.
	@rm -rf bin

##@ Run

.PHONY: dev
dev: not-ready build-dev ## Run a demonstration in the foreground until Ctrl-C (DEV_FLAGS=--keep-state resumes the last one).
	@bin/dev --stop-with-parent $(DEV_FLAGS)

# A killed run leaves .dev/ready behind, which must not be mistaken for that of this run while it is still being built.
.PHONY: not-ready
not-ready:
	@[ ! -e .dev/lock ] || ! command -v flock >/dev/null || flock --nonblock .dev/lock rm -f .dev/ready || true

.PHONY: build-dev
build-dev:
	@# What needs no control plane can be tried while everything else is built, which takes minutes the first time.
	@[ -x bin/tools/kube-apiserver ] || { echo "building quayctl for manifests" && \
		$(GO) build $(BUILD_FLAGS) -tags=$(TAGS),manifestsonly -o bin/ ./cmd/quayctl && \
		echo "while the rest is built, try in another terminal: bin/quayctl lint examples/service-bad.yaml"; }
	@echo "building quaymaster, mycloud and the demonstration"
	@$(MAKE) build
	@$(GO) build -o bin/dev ./test/dev
	@tools/build.sh $(DEV_TOOLS)

##@ Check

.PHONY: test
test: ## Run all tests: unit, safety, integration, demonstration, pages (RACE=1: with the race detector).
	@# The tests of safety need one processor and no real time; many unit tests wait.
	@$(MAKE) -j 2 test-unit test-safety
	@$(MAKE) -j 1 test-integration test-dev test-page

.PHONY: test-unit
test-unit: ## Run the unit tests, which need only Go (RACE=1); those of edges need root and Debian's packages.
	@tools/edge-packages.sh
	@$(MAKE) build
	@echo "unit tests$(if $(RACE), with the race detector)"
	@# Three at a time, because some mostly wait.
	@$(RACE_TEST) -p 3 -timeout 10m $(UNIT)
	@# The race detector allocates, too.
	@$(if $(RACE),$(GO_TEST) -run '^TestAllocations$$' ./webhook,true)
	@# These look at the whole tree, which the test cache does not see.
	@$(GO_TEST) -count=1 ./test/repo/architecture ./test/repo/words

.PHONY: test-safety
test-safety: ## Kill the controllers around every call, count their calls, and play random sequences; needs only Go.
	@echo "safety of the controllers, on virtual time"
	@mkdir -p bin && rm -f bin/safety-figures
	@$(GO_TEST) -count=1 -timeout 15m ./test/safety -figures '$(CURDIR)/bin/safety-figures'
	@cat bin/safety-figures

.PHONY: soak
soak: ## Play random sequences of changes, faults, crashes and disasters for SOAK (10m), from SEED (1), and count them over all runs.
	@mkdir -p bin
	@$(GO_TEST) -count=1 -timeout 0 -run '^TestSoak$$' -v ./test/safety -soak $(SOAK) -seed $(SEED) $(if $(KINDS),-kinds $(KINDS)) \
		-figures '$(CURDIR)/bin/soak-figures'

.PHONY: replay
replay: ## Play the STEPS of a sequence of make soak that has failed, from SEED, with the logs of the controllers.
	@$(GO_TEST) -count=1 -run '^TestRandom$$' -v ./test/safety -sequences 1 -length 240 -seed $(SEED) -only '$(STEPS)' $(if $(KINDS),-kinds $(KINDS)) -logs

.PHONY: test-integration
test-integration: ## Run the integration tests on a real API server.
	@tools/edge-packages.sh
	@tools/build.sh $(TEST_TOOLS)
	@$(MAKE) build
	@echo "integration tests on a real API server"
	@# They mostly wait, so three packages run at a time, two with the race detector, but not those next to an attack. The
	@# programs that they start collect garbage less often, too.
	@GOGC=400 $(RACE_TEST) -count=1 -p $(if $(RACE),2,3) -timeout 20m $(call longest-first,$(filter-out $(ATTACKS) $(if $(RACE),$(DRIVERS)),$(INTEGRATION)))
	@$(if $(RACE),GOGC=400 $(GO_TEST) -count=1 -p 2 -timeout 20m $(call longest-first,$(filter-out $(ATTACKS),$(DRIVERS))),true)
	@$(GO_TEST) -count=1 -p 1 -timeout 20m $(ATTACKS)

.PHONY: test-attacks
test-attacks: ## Attack admission as a tenant and as a stranger, for longer than make test does, and print what it cost (takes 15 minutes).
	@tools/build.sh $(TEST_TOOLS)
	@$(MAKE) build
	@$(GO_TEST) -count=1 -timeout 60m -v ./test/adversarial/tenants -full -figures '$(CURDIR)/bin/attack-figures'
	@cat bin/attack-figures

.PHONY: test-versions
test-versions: ## Run the integration tests and those of the chart on kube-apiservers of VERSIONS, which it builds first (takes minutes).
	@tools/build.sh $(TEST_TOOLS)
	@$(MAKE) build
	@for version in $(VERSIONS); do \
		echo "kube-apiserver $$version: building" && test/repo/versions/build.sh $$version && \
		echo "kube-apiserver $$version: integration tests" && \
		KUBEBUILDER_ASSETS='$(CURDIR)'/bin/versions/$$version $(GO_TEST) -count=1 -p 2 -timeout 20m $(VERSIONED) || exit 1; \
	done

.PHONY: test-vendors
test-vendors: ## Compare the catalog VENDOR with the vendor's own code on CASES generated Services (SEED, SOURCES; see CONTRIBUTING.md).
	@[ -d 'tools/vendors/$(VENDOR)' ] && [ -n '$(VENDOR)' ] || { echo "test-vendors: set VENDOR to one of:" $$(cd tools/vendors && ls */go.mod | sed 's|/go.mod||' | grep -v '^judge$$') >&2; exit 1; }
	@tools/vendors/build.sh '$(VENDOR)' '$(SOURCES)'
	@$(GO) run ./test/vendors/run -judge bin/vendors/$(VENDOR)/judge -folder tools/vendors/$(VENDOR) -cases $(CASES) -seed $(SEED) \
		$(if $(filter 100000-1,$(CASES)-$(SEED)),-results docs/gen/vendors)

.PHONY: catalogs-update
catalogs-update: ## List what the vendor's own code has and the catalog VENDOR lacks, and the reverse; then run test-vendors (SOURCES; see CONTRIBUTING.md).
	@$(GO) build -o bin/vendors/update ./test/vendors/update
	@status=0; bin/vendors/update -vendor '$(VENDOR)' -sources '$(SOURCES)' || status=$$?; \
		[ $$status = 2 ] || [ ! -d 'tools/vendors/$(VENDOR)' ] || $(MAKE) test-vendors || status=1; \
		exit $$status

.PHONY: test-dev
test-dev: build-dev ## Run the demonstration, and test everything that it prints and that guides show.
	@tools/build.sh helm
	@tools/page.sh browser
	@echo "the demonstration, end to end"
	@$(RACE_TEST) -count=1 -timeout 15m ./test/dev -screenshots '$(CURDIR)/bin/page/demonstration'

.PHONY: test-edge
test-edge: ## Test edges with real packets in network namespaces, all of it (needs root and Debian's packages; takes minutes).
	@tools/edge-packages.sh
	@$(MAKE) build
	@$(GO_TEST) -count=1 -timeout 60m ./test/edge -full

.PHONY: test-page
test-page: ## Look at the page of mycloud and at pages of findings in Chromium, which is installed; screenshots are in bin/page.
	@tools/page.sh browser
	@$(MAKE) build
	@echo "pages in a browser"
	@$(GO_TEST) -count=1 -timeout 15m ./test/page -screenshots '$(CURDIR)/bin/page'

.PHONY: test-ha
test-ha: ## Check 200 histories of servers that share a state, while they and the members of etcd fail (takes half an hour).
	@tools/build.sh etcd
	@$(MAKE) build
	@$(GO_TEST) -count=1 -timeout 120m -v ./test/integration/replicas -runs 200 -seed $(SEED)

.PHONY: test-etcd
test-etcd: ## Run the tests of all that uses the cloud with its state in etcd, edges among them (takes a quarter of an hour).
	@tools/edge-packages.sh
	@tools/build.sh $(TEST_TOOLS)
	@$(MAKE) build
	@$(GO_TEST) -count=1 -timeout 60m -run '^TestUsers$$' -v ./internal/mycloud/server/store/etcd -packages '$(CLOUD_USERS)'

.PHONY: test-skew
test-skew: ## Check a server of FORMER (a tag or commit, by default the last tag) beside two of this version on one state.
	@[ -n "$(FORMER)" ] || { echo "test-skew: there is no tag; set FORMER to a commit" >&2; exit 1; }
	@tools/build.sh etcd
	@$(MAKE) build
	@rm -rf bin/former && git worktree prune && git worktree add --force --detach bin/former/tree '$(FORMER)'
	@cd bin/former/tree && $(GO) build -o ../mycloud ./cmd/mycloud; built=$$?; git worktree remove --force '$(CURDIR)/bin/former/tree'; exit $$built
	@$(GO_TEST) -count=1 -timeout 30m -v -run '^(TestLinearizable|TestEdgeOfAnyServer|TestBackToFormer)$$' ./test/integration/replicas -former '$(CURDIR)/bin/former/mycloud' -runs 10 -seed $(SEED)

.PHONY: soak-edge
soak-edge: ## Play random sequences of load balancers, faults and crashes on two edges for SOAK (10m), from SEED (1), and count them.
	@tools/edge-packages.sh
	@$(MAKE) build
	@$(GO_TEST) -count=1 -timeout 0 -run '^TestSoak$$' -v ./test/edge -soak $(SOAK) -seed $(SEED)

.PHONY: replay-edge
replay-edge: ## Play the STEPS of a sequence of make soak-edge that has failed, from SEED.
	@$(MAKE) build
	@$(GO_TEST) -count=1 -run '^TestWorlds$$' -v ./test/edge -full -length 100 -seed $(SEED) -only '$(STEPS)'

.PHONY: e2e
e2e: ## Test the chart on the cluster in KUBECONFIG, which needs cert-manager (E2E_VALUES=file).
	@tools/build.sh kubectl helm
	@$(MAKE) build
	@$(GO_TEST) -count=1 -timeout 20m -v ./test/e2e

# The scripts that run a real cluster on this machine, and a folder for what the suite prints.
REALCLUSTER ?= ../shared/realcluster
E2E_OUT ?= bin/e2e-traffic

.PHONY: e2e-traffic
e2e-traffic: ## Run Kubernetes' LoadBalancer suite through two edges, on a cluster made by the scripts in REALCLUSTER (takes 30 minutes).
	@tools/edge-packages.sh
	@tools/build.sh kubectl helm
	@$(MAKE) build
	@# The specs mostly wait.
	@REALCLUSTER='$(abspath $(REALCLUSTER))' E2E_OUT='$(abspath $(E2E_OUT))' $(GO_TEST) -count=1 -parallel 20 -timeout 100m -v ./test/e2e/traffic

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

# A network namespace of its own gives every webhook a cluster IP; see docs/explanation/performance.md.
ISOLATED = unshare --net $(if $(filter-out 0,$(shell id -u)),--map-root-user)

.PHONY: bench-cloud
bench-cloud: ## Measure how the cost of the cloud's API grows with its load balancers, on a file and on etcd (CLOUD_SIZES).
	@tools/build.sh etcd
	@$(GO_TEST) -count=1 -timeout 60m -v -run '^TestScale$$' ./test/bench/cloud -sizes '$(CLOUD_SIZES)'
	@$(GO_TEST) -run '^$$' -bench '^BenchmarkUpdate$$' ./internal/mycloud/server/store/etcd

.PHONY: bench-admission
bench-admission: ## Measure what admission costs, on a real API server (ROUNDS, ATTACK_ROUNDS, DURATION, CONCURRENCY, ONLY, BEFORE, PROFILES).
	@tools/build.sh etcd kube-apiserver benchstat
	@$(MAKE) build
	@$(GO) build -ldflags '-s -w' -o bin/bench/ ./test/bench/admission/...
	@$(ISOLATED) bin/bench/admission -rounds '$(ROUNDS)' -attack-rounds '$(ATTACK_ROUNDS)' -duration '$(DURATION)' -concurrency '$(CONCURRENCY)' \
		-only '$(ONLY)' -before '$(BEFORE)' -profiles '$(PROFILES)' >bin/bench/admission.txt
	@test/bench/admission/tables.sh bin/bench/admission.txt

.PHONY: bench-controllers
bench-controllers: ## Measure what the controllers cost, ours and stock, on a real API server (SIZES); takes about 20 minutes.
	@tools/build.sh etcd kube-apiserver benchstat
	@$(MAKE) build
	@$(GO) build -ldflags '-s -w' -o bin/bench/ ./test/bench/controllers/...
	@bin/bench/controllers -sizes '$(SIZES)' >bin/bench/controllers.txt
	@bin/tools/benchstat -row .name,/size -col '/controllers@(stock ours)' bin/bench/controllers.txt

.PHONY: verify
verify: ## Check format, lint, chart, modules and generated files; fails if the tree is dirty.
	@tools/build.sh $(VERIFY_TOOLS)
	@unformatted=$$(gofmt -l .); \
		[ -z "$$unformatted" ] || { echo "verify: not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	@bin/tools/golangci-lint run ./...
	@bin/tools/helm lint --strict --quiet charts/quaymaster --set image.repository=quaymaster
	@for module in . tools/*/ examples/client; do \
		(cd $$module && $(GO) mod tidy -diff >/dev/null) || { echo "verify: go.mod is not tidy; run: (cd $$module && go mod tidy)"; exit 1; }; \
	done
	@$(MAKE) generate
	@changes=$$(git status --porcelain); \
		[ -z "$$changes" ] || { echo "verify: the tree is dirty; run make generate and commit these files:"; echo "$$changes"; exit 1; }
	@echo "verified"
