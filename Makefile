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
# DECODERS lists the fuzz tests of the code that decodes the data of servers and files. The
# target hostile runs them.
DECODERS    = internal/jute:FuzzDecoder internal/jute:FuzzQuota internal/zkconn/wire:FuzzFrame internal/zkconn/wire:FuzzVersion internal/zkconn:FuzzAnswer internal/trace:FuzzDecode \
              internal/dump:FuzzRead internal/dump:FuzzLog internal/unpack:FuzzData internal/secure:FuzzStore internal/secure:FuzzProperties \
              internal/secure/kerberos:FuzzConfig internal/secure/kerberos:FuzzCache internal/secure/kerberos:FuzzKeytab internal/secure/kerberos:FuzzTokens \
              internal/secure:FuzzJAAS internal/secure:FuzzChallenge internal/secure:FuzzRecords internal/cluster:FuzzAnswers lockcmd/queue:FuzzNote \
              lockcmd:FuzzPosts lockcmd/zklock:FuzzParseName
# SYSTEMS lists the operating systems and architectures for which the target cross vets the code.
SYSTEMS     = linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GORELEASER  = github.com/goreleaser/goreleaser/v2@v2.15.1

# With -trimpath, all clones of the repository share the build cache.
export GOFLAGS := $(strip -trimpath $(GOFLAGS))

# The target test runs each test once, in one of three ways:
#   - PLAIN runs the packages in PROGRAMS without the race detector. Their tests start programs,
#     mostly zksh, which would take several times the processor time under it. The target full
#     runs the scripts among them, and the target proof all of them, under the race detector, with
#     a zksh that is also built with it. PLAIN also runs the packages in SERIAL, which have no
#     goroutines, neither in their code nor in their tests; archtest checks this.
#   - RACE runs all other packages under the race detector. LONG lists those whose tests mostly
#     wait for sessions to expire. They come first, so that others run while they wait.
#   - SINGLE runs the tests in ALONE, which belong to packages of RACE, without the race detector.
#     They process so much data that they would take ten times as long under it. The target full
#     runs those in HEAVY, in which several goroutines work, under the race detector. SINGLE also
#     runs TestRoundsModel, which is not built for the race detector, and TestDeepAndWide, which
#     then uses a larger tree.
#
# -count=1: some tests run go build, and a cached test result would ignore changes of its input.
# -vet=off: the target lint runs go vet.
# GORACE: by default, every test program built with -race sleeps for a second before it exits.
PROGRAMS    = ./internal/e2e ./internal/interop ./internal/underlock ./internal/sandbox/difftest ./internal/replay
SERIAL      = ./internal/archtest ./history ./shell/exit ./shell/manual ./shell/syntax ./internal/jute ./internal/peer \
              ./internal/properties ./internal/render ./internal/tty ./internal/unpack
LONG        = ./lockcmd/demo ./lockcmd/zklock ./commands/transfer ./lockcmd ./commands/undo
HEAVY       = TestEndlessTree|TestLargeTrees|TestLineTooLong|TestQuotedLineTooLong|TestRepliesOverMemoryLimit|TestTooManyWatchedEvents
ALONE       = ^(TestSmallFilesThatStandForMuch|TestSmallFilesFillNoDisk|TestLog|$(HEAVY))$$
WITHRACE    = env GORACE=atexit_sleep_ms=100 go test -race -count=1 -vet=off -timeout 20m
PLAIN       = go test -count=1 -vet=off -p 2 -timeout 20m $(PROGRAMS) $(SERIAL)
RACE        = $(WITHRACE) -p 2 -skip '$(ALONE)' $(LONG)
SINGLE      = go test -count=1 -vet=off -p 2 -timeout 20m -run '$(ALONE)|^TestRoundsModel(Bites)?$$|^TestDeepAndWide$$' \
              ./lockcmd/zklock ./internal/dump ./internal/zktree ./internal/zkconn ./shell/batch

.DEFAULT_GOAL := help
.PHONY: build dist run deps check short scripts test plain race single full proof soak lint cross bench diff split failover outage chaos fence hostile fuzz docs clean help

build: ## build bin/zksh
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/zksh .

# GoReleaser takes about four minutes to compile, the first time.
dist: ## build the release files in dist: archives, packages and checksums, signed if MINISIGN_KEY_FILE names a key
	@test -n "$(MINISIGN_KEY_FILE)" || echo "NOTHING WILL BE SIGNED, because MINISIGN_KEY_FILE is not set"
	go run $(GORELEASER) release --snapshot --clean $(if $(MINISIGN_KEY_FILE),,--skip=sign)

# The exit status of zksh is that of its last line. It must not make the target fail.
run: build ## build zksh, and start it on the sandbox, an in-memory server
	bin/zksh --sandbox || :

deps: ## install the programs that the tests need, with apt-get, as root: ZooKeeper, java, tmux, kazoo, Curator, a KDC, zsh, fish, groff, bats, sudo
	.ci/install-zookeeper
	.ci/archive-classes

check: ## run lint, the tests with -short, and the scripts on the sandbox, without a server or the race detector; about a minute
	@$(MAKE) --no-print-directory -j3 lint short scripts

# Nearly all tests in PROGRAMS and LONG need a server, which -short does not start. -p 8: most of
# the others wait.
short:
	go test -short -count=1 -vet=off -p 8 -timeout 5m -skip '$(ALONE)' \
		$$(go list ./... | grep -vxF "$$(go list $(LONG) $(PROGRAMS))") ./lockcmd

scripts:
	go test -short -count=1 -vet=off -timeout 5m -run '^TestScriptsOnSandbox$$' ./internal/e2e

# -k: run all of them, even if one fails, and fail at the end.
# -j2: one of the two jobs is always race, whose tests mostly wait.
test: deps ## run deps, lint and every test, even if some fail
	@$(MAKE) --no-print-directory -k -j2 race lint plain single

plain:
	$(PLAIN)

race:
	others=$$(go list ./... | grep -vxF "$$(go list $(LONG) $(PROGRAMS) $(SERIAL))") && $(RACE) $$others

single:
	$(SINGLE)

full: deps ## run the long tests at full size, and the scripts and what handles much data under the race detector, and build release files; takes minutes
	go test -count=1 -timeout 30m -run '^(TestRelease|TestGoInstall)$$' ./internal/e2e -release $(GORELEASER)
	go run ./internal/bench -quick
	go test -count=1 -timeout 20m -run '^(TestWindowsAgree|TestScriptsOnSandbox|TestLockScriptsOnProducts|TestCutWindow|TestFaultyServers)$$' ./internal/e2e -rapid.checks 2000 -versions -cuts -faults
	go test -count=1 -timeout 20m -run '^(TestWindowsAgreeOnServer|TestFenceShowsNothing|TestFenceShowsNothingOnServer)$$' ./internal/e2e -rapid.checks 200
	go test -count=1 -timeout 20m -parallel 16 -run '^TestRandomKeys$$' ./shell/line -keys 20000
	$(WITHRACE) -run '^TestScripts$$' ./internal/e2e -versions
	$(WITHRACE) ./internal/sandbox/difftest
	$(WITHRACE) -run '^($(HEAVY))$$' ./internal/zktree ./internal/zkconn ./shell/batch
	$(WITHRACE) -run '^(TestFence|TestChaos|TestLocks)$$' ./internal/interop -fence 1m -chaos 1m -contend 10s
	$(WITHRACE) -run '^TestChaos$$' ./lockcmd/zklock -chaos 1m
	go test -count=1 -run '^TestRoundsModelLimits$$' ./lockcmd/zklock
	go test -count=1 -timeout 20m -run '^TestUndoBringsBack$$' ./commands/undo -rapid.checks 250 -worlds 8 -parallel 8

proof: deps ## run the packages in PROGRAMS under the race detector, and the random trials of trees and of commands under a lock at full size; takes an hour
	$(WITHRACE) -timeout 60m -p 2 ./internal/e2e ./internal/interop ./internal/replay
	go test -count=1 -timeout 20m -run '^TestNothingOfOthersIsLost$$' ./commands/transfer -others 600
	go test -count=1 -timeout 30m -parallel 16 -run '^(TestNothingOutlivesTheLock|TestRenewedInTime)$$' ./internal/underlock -trials 200 -loaded 500

soak: deps ## run every test RUNS times while every core is busy; fails if any run fails
	.ci/soak $(RUNS) $(MAKE) --no-print-directory -j3 race plain single

lint: ## run gofmt, go vet and staticcheck, and check that go.mod is tidy
	@unformatted=$$(gofmt -l .) && { test -z "$$unformatted" || { echo "gofmt -w these:" $$unformatted; exit 1; }; }
	go vet ./...
	go run $(STATICCHECK) -checks inherit,-ST1005 ./... # ST1005: error messages that are the same as zkCli's begin with capitals
	go mod tidy -diff

cross: ## run go vet on the code and its tests for every system in SYSTEMS
	@set -e; for system in $(SYSTEMS); do \
		echo "go vet for $$system"; \
		GOOS=$${system%/*} GOARCH=$${system#*/} go vet ./...; \
	done

bench: ## run the benchmarks against a real server: zksh beside zkCli, then the prompt, the sandbox and the locks
	go run ./internal/bench
	go test -run '^$$' -bench . ./internal/e2e ./internal/sandbox ./internal/sandbox/difftest ./lockcmd ./lockcmd/zklock

diff: ## compare the sandbox with a real server, in SEEDS sequences of OPS random operations
	go test -race -count=1 -timeout 0 -v -run '^TestDiff$$' ./internal/sandbox/difftest -seed $(SEED) -seeds $(SEEDS) -ops $(OPS) -quota both

split: ## isolate servers together with lock holders, SPLITS times in each way; about a minute each
	go test -count=1 -timeout 0 -v -run '^TestSplit$$' ./internal/e2e -split $(SPLITS)

failover: ## silence the servers of FAILOVERS lock holders; two minutes
	go test -count=1 -timeout 0 -v -run '^TestFailover' ./internal/e2e -failovers $(FAILOVERS)

outage: ## disconnect OUTAGES lock holders from their server for a moment; two minutes
	go test -count=1 -timeout 0 -v -run '^TestOutage' ./internal/e2e -outages $(OUTAGES)

chaos: ## contend for locks for MINUTES minutes, while servers are isolated and killed, and clients cut off, stopped and killed
	go test -race -count=1 -timeout 0 -v -run '^TestChaos$$' ./internal/interop -chaos $(MINUTES)m

fence: ## increment a number under locks for MINUTES minutes, while the lock holders are cut off and stopped and their sessions ended
	go test -race -count=1 -timeout 0 -v -run '^TestFence$$' ./internal/interop -fence $(MINUTES)m

hostile: ## run TestFaultyServers and every test of servers and files that try to fill the memory, then the fuzz tests in DECODERS for ten seconds each; ten minutes
	go test -count=1 -timeout 10m -v -run '^(TestHostile|TestFaultyServers)' ./internal/e2e -hostile -parallel 2
	@set -e; for target in $(DECODERS); do \
		echo "$$target"; \
		go test -run '^$$' -fuzz "^$${target#*:}\$$" -fuzztime 10s -fuzzminimizetime 1s "./$${target%:*}"; \
	done

fuzz: ## run each fuzz test for FUZZTIME
	@set -e; list=$$(go test -list '^Fuzz' ./...); \
	echo "$$list" | awk '/^Fuzz/ { f[n++] = $$1 } /^ok/ { while (n) print $$2, f[--n] }' | \
	while read -r pkg target; do \
		echo "$$pkg $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$pkg"; \
	done

docs: ## regenerate the tables of the manual, the output of lockdemo in it, and the pictures of screens
	go test -run 'TestDocTables|TestDocLockdemo|TestPictures' ./internal/e2e -update

clean: ## delete the files that build and dist created
	rm -rf bin dist

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
