VERSION     = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME   ?= 20s
SEED       ?= 1
SEEDS      ?= 5
RUNS       ?= 10
OPS        ?= 10000
SPLITS     ?= 20
FAILOVERS  ?= 50
OUTAGES    ?= 40
MINUTES    ?= 10
# The fuzz targets of what is read from a server or a file, which hostile runs.
DECODERS    = internal/jute:FuzzDecoder internal/jute:FuzzQuota internal/zkconn/wire:FuzzFrame internal/zkconn/wire:FuzzVersion internal/zkconn:FuzzAnswer \
              internal/dump:FuzzRead internal/dump:FuzzLog internal/unpack:FuzzAll internal/secure:FuzzStore internal/secure:FuzzProperties \
              internal/secure:FuzzJAAS internal/secure:FuzzChallenge internal/secure:FuzzRecords internal/cluster:FuzzAnswers lockcmd/queue:FuzzNote \
              lockcmd:FuzzPosts lockcmd/zklock:FuzzParseName
# What cross vets besides the system at hand.
SYSTEMS     = linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# What one clone has compiled serves the next one, too.
export GOFLAGS := $(strip -trimpath $(GOFLAGS))

# Tests run under the race detector, RACE, but for those in which one goroutine has all the
# work, or that begin the program a thousand times, PLAIN: either takes ten times as long
# under it. full has scripts and TestDiff under it. The packages that wait for sessions to
# end, LONG, run beside all others, to which they leave the processor.
# count: what go build reads is no part of a cached result; vet: lint does it;
# GORACE: the detector would have every package wait for a second at its end.
RACE        = env GORACE=atexit_sleep_ms=100 go test -race -count=1 -vet=off -p 2 -timeout 20m -skip '$(ALONE)'
LONG        = ./internal/e2e ./lockcmd/zklock ./lockcmd/demo ./lockcmd ./internal/interop ./commands/transfer ./commands/undo
PLAIN       = go test -count=1 -vet=off -timeout 20m -run '$(ALONE)|^TestRoundsModel|^TestDeepAndWide$$' \
              ./internal/e2e ./lockcmd/zklock ./internal/sandbox/difftest ./internal/dump ./internal/zktree
ALONE       = ^(TestHostileServersFillNoMemory|TestHostileFilesFillNoMemory|TestHostileLogsFillNoMemory|TestScripts|TestScriptsOnSandbox|TestSmallFilesThatStandForMuch|TestLog|TestDiff)$$

.DEFAULT_GOAL := help
.PHONY: build dist dist-check run deps check test long rest full soak lint cross bench diff kazoo split failover outage chaos fence hostile fuzz docs clean help

build: ## build bin/zksh
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/zksh .

dist: ## make all that is published in dist: archives, packages, image, SBOM, checksums, signed if MINISIGN_KEY_FILE names a key
	go -C internal/dist run . -version $(VERSION)

dist-check: ## make all that twice, the second time from another folder and compiled anew, and compare each byte; minutes
	CI=$${CI:-true} go -C internal/dist test -count=1 -timeout 0 -v . -all

# The status of a shell is that of its last line: no failure of make.
run: build ## build, and open a shell on an in-memory server, the sandbox
	bin/zksh --sandbox || :

deps: ## install what the tests run against, with apt-get as root: ZooKeeper, java, tmux, kazoo, Curator, zsh, fish, groff
	.ci/install-zookeeper
	.ci/archive-classes

check: lint ## what needs no server, without the race detector: lint, the tests with -short, and the scripts on the sandbox; about a minute
	go test -short -count=1 -vet=off -timeout 5m $$(go list ./... | grep -vxF "$$(go list $(LONG))") ./lockcmd
	go test -short -count=1 -vet=off -timeout 5m -run '^TestScriptsOnSandbox$$' ./internal/e2e

test: deps ## install what the tests need, lint, run every test
	@$(MAKE) --no-print-directory -j3 lint long rest

long:
	$(RACE) $(LONG)

rest:
	$(PLAIN)
	go -C internal/dist test -count=1 .
	others=$$(go list ./... | grep -vxF "$$(go list $(LONG))") && $(RACE) $$others

full: deps ## run at full size what make test has a part of, and what it has without the race detector under it; minutes
	go test -count=1 -timeout 20m -run '^(TestWindowsAgree|TestExactAgrees|TestScriptsOnSandbox|TestCutWindow|TestFaultyServers)$$' ./internal/e2e -rapid.checks 2000 -versions -cuts -faults
	go test -race -count=1 -timeout 20m -run '^TestScripts$$' ./internal/e2e
	go test -race -count=1 -timeout 20m -run '^TestDiff$$' ./internal/sandbox/difftest
	go test -race -count=1 -timeout 20m -run '^(TestFence|TestChaos|TestLocks)$$' ./internal/interop -fence 1m -chaos 1m -contend 10s
	go test -race -count=1 -timeout 20m -run '^TestChaos$$' ./lockcmd/zklock -chaos 1m
	go test -count=1 -timeout 20m -run '^TestUndoBringsBack$$' ./commands/undo -rapid.checks 250 -worlds 8 -parallel 8

soak: deps ## run every test RUNS times while every core is kept busy; needs them green each time
	.ci/soak $(RUNS) $(MAKE) --no-print-directory -j2 long rest

lint: ## check the format, vet, staticcheck, go.mod
	@unformatted=$$(gofmt -l .) && { test -z "$$unformatted" || { echo "gofmt -w these:" $$unformatted; exit 1; }; }
	go vet ./...
	go run $(STATICCHECK) -checks inherit,-ST1005 ./... # ST1005: zkCli's own words begin with capitals
	go mod tidy -diff
	for module in dist bench; do \
		(cd internal/$$module && go vet ./... && go run $(STATICCHECK) -checks inherit,-ST1005 ./... && go mod tidy -diff) || exit; \
	done

cross: ## vet all of it, the tests too, for the systems that are not at hand
	@set -e; for system in $(SYSTEMS); do \
		echo "go vet for $$system"; \
		GOOS=$${system%/*} GOARCH=$${system#*/} go vet ./...; \
	done

bench: ## measure against a real server: zksh, its keyboard, then the sandbox and the locks
	go -C internal/bench run .
	go test -run '^$$' -bench . ./internal/e2e ./internal/sandbox ./internal/sandbox/difftest ./lockcmd ./lockcmd/zklock

diff: ## compare the sandbox with a real server: SEEDS sequences of OPS random operations
	go test -race -count=1 -timeout 0 -v -run '^TestDiff$$' ./internal/sandbox/difftest -seed $(SEED) -seeds $(SEEDS) -ops $(OPS) -quota both

kazoo: ## run all of kazoo's own tests on the sandbox and on a real server; minutes
	go test -count=1 -timeout 0 -v -run '^TestKazooSuite$$' ./internal/interop -kazoo

split: ## cut servers off together with the holders of locks, SPLITS times each way; about a minute each
	go test -count=1 -timeout 0 -v -run '^TestSplit$$' ./internal/e2e -split $(SPLITS)

failover: ## let the server of each of FAILOVERS holders of locks fall silent; two minutes
	go test -count=1 -timeout 0 -v -run '^TestFailover' ./internal/e2e -failovers $(FAILOVERS)

outage: ## take the server away from each of OUTAGES holders of locks for a moment; two minutes
	go test -count=1 -timeout 0 -v -run '^TestOutage' ./internal/e2e -outages $(OUTAGES)

chaos: ## contend for locks for MINUTES while servers and clients are cut off, stopped and killed
	go test -race -count=1 -timeout 0 -v -run '^TestChaos$$' ./internal/interop -chaos $(MINUTES)m

fence: ## increment a number under locks for MINUTES while those who hold them are cut off, stopped and ended
	go test -race -count=1 -timeout 0 -v -run '^TestFence$$' ./internal/interop -fence $(MINUTES)m

hostile: ## run every attack on the memory of zksh, by servers and by files, and the rows of the faulty servers; then the fuzz targets of DECODERS for ten seconds each; ten minutes
	go test -count=1 -timeout 10m -v -run '^(TestHostile|TestFaultyServers)' ./internal/e2e -hostile -parallel 2
	@set -e; for target in $(DECODERS); do \
		echo "$$target"; \
		go test -run '^$$' -fuzz "^$${target#*:}\$$" -fuzztime 10s -fuzzminimizetime 1s "./$${target%:*}"; \
	done

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; list=$$(go test -list '^Fuzz' ./...); \
	echo "$$list" | awk '/^Fuzz/ { f[n++] = $$1 } /^ok/ { while (n) print $$2, f[--n] }' | \
	while read -r pkg target; do \
		echo "$$pkg $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$pkg"; \
	done

docs: ## write the generated parts of the manual, what lockdemo shows, and the pictures of screens, from the program
	go test -run 'TestDocTables|TestDocLockdemo|TestPictures' ./internal/e2e -update

clean: ## remove what build made
	rm -rf bin dist .dist-*

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
