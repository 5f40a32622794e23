VERSION     = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME   ?= 20s
SEED       ?= 1
SEEDS      ?= 5
RUNS       ?= 10
OPS        ?= 10000
SPLITS     ?= 20
FAILOVERS  ?= 50
MINUTES    ?= 10
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# count: what go build reads is no part of a cached result; vet: lint has done it;
# p: the servers and terminals of more packages at a time would make each other late.
GOTEST      = go test -race -count=1 -vet=off -p 2 -timeout 20m ./...

.DEFAULT_GOAL := help
.PHONY: build run deps test soak lint bench diff kazoo split failover chaos fence fuzz docs clean help

build: ## build bin/zksh
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/zksh .

run: build ## build, and open a shell on an in-memory server, the sandbox
	exec bin/zksh --sandbox

deps: ## install what the tests run against, with apt-get as root: ZooKeeper, java, tmux, kazoo, Curator
	.ci/install-zookeeper

test: deps lint ## install what the tests need, lint, run all tests
	$(GOTEST)
	go test -count=1 -run '^TestRoundsModel' ./lockcmd/zklock # not above: with -race it takes ten times as long
	go test -count=1 -run '^(TestWindowsAgree|TestExactAgrees|TestScriptsOnSandbox)$$' ./internal/e2e -rapid.checks 2000 -versions # nor these

soak: deps ## run all tests RUNS times while every core is kept busy; needs them green each time
	.ci/soak $(RUNS) $(GOTEST)

lint: ## check the format, vet, staticcheck, go.mod
	@unformatted=$$(gofmt -l .) && { test -z "$$unformatted" || { echo "gofmt -w these:" $$unformatted; exit 1; }; }
	go vet ./...
	go run $(STATICCHECK) -checks inherit,-ST1005 ./... # ST1005: zkCli's own words begin with capitals
	go mod tidy -diff

bench: ## measure against a real server: zksh, then the sandbox and the locks
	go run ./internal/bench
	go test -run '^$$' -bench . ./internal/sandbox ./internal/sandbox/difftest ./lockcmd ./lockcmd/zklock

diff: ## compare the sandbox with a real server: SEEDS sequences of OPS random operations
	go test -race -count=1 -timeout 0 -v -run '^TestDiff$$' ./internal/sandbox/difftest -seed $(SEED) -seeds $(SEEDS) -ops $(OPS) -quota both

kazoo: ## run all of kazoo's own tests on the sandbox and on a real server; minutes
	go test -count=1 -timeout 0 -v -run '^TestKazooSuite$$' ./internal/interop -kazoo

split: ## cut servers off together with the holders of locks, SPLITS times each way; about a minute each
	go test -count=1 -timeout 0 -v -run '^TestSplit$$' ./internal/e2e -split $(SPLITS)

failover: ## let the server of each of FAILOVERS holders of locks fall silent; two minutes
	go test -count=1 -timeout 0 -v -run '^TestFailover' ./internal/e2e -failovers $(FAILOVERS)

chaos: ## contend for locks for MINUTES while servers and clients are cut off, stopped and killed
	go test -race -count=1 -timeout 0 -v -run '^TestChaos$$' ./internal/interop -chaos $(MINUTES)m

fence: ## increment a number under locks for MINUTES while those who hold them are cut off, stopped and ended
	go test -race -count=1 -timeout 0 -v -run '^TestFence$$' ./internal/interop -fence $(MINUTES)m

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; list=$$(go test -list '^Fuzz' ./...); \
	echo "$$list" | awk '/^Fuzz/ { f[n++] = $$1 } /^ok/ { while (n) print $$2, f[--n] }' | \
	while read -r pkg target; do \
		echo "$$pkg $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$pkg"; \
	done

docs: ## write the README's tables, and what lockdemo shows, from the program
	go test -run 'TestReadmeTables|TestReadmeLockdemo' ./internal/e2e -update

clean: ## remove what build made
	rm -rf bin

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
