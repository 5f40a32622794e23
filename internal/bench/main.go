// Bench measures the speed and the memory of zksh. It compares zksh with a bare loop over
// go-zookeeper and, if installed, with zkCli.sh: it runs them in turn against the same server.
// It prints tables with the measured values and their goals.
//
//	go -C internal/bench run . [-quick] [-commands] [-scripts] [-tls] [-trees] [-against commit]
//
// With -against, it compares zksh with an earlier version instead. The variable sections lists
// the other measurements. A job is a program to run; byTurns runs jobs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

const (
	zkCliPath = "/usr/share/zookeeper/bin/zkCli.sh" // path of zkCli in Debian's package
	heapMB    = 1024                                // maximum heap size of each server, in MiB
)

// sections lists the tables of results in the order in which they are printed.
var sections = []struct {
	flag, title, conditions string
	measure                 func(*bench) []*figure
}{
	{"commands", "Commands", "Times are medians from start to exit, on a server without fsync. In nested trees, each znode has 20 children.", (*bench).measureCommands},
	{"scripts", "Scripts", "With fsync. Ratios are medians over rounds in which each program had a turn.", (*bench).measureScripts},
	{"tls", "TLS", "TLS 1.3 with certificates on both sides, with Netty and fsync. zkCli is Java alone, without its script.", (*bench).measureTLS},
	{"trees", "Trees of a million znodes", "On the sandbox, in a process of its own.", (*bench).measureTrees},
}

// A bench is one run of this benchmark program.
type bench struct {
	ctx  context.Context
	dir  string // directory for temporary files, which is removed at the end
	addr string // address of the server that is currently measured
	// Paths of this program, of zksh and of zkCli. cli is empty if zkCli is not installed.
	self, zksh, cli string
	quick           bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == helperArg {
		exit(caught(func() { runHelper(os.Args[2:]) }))
	}
	quick := flag.Bool("quick", false, "smoke run: use small trees, and run each command once")
	against := flag.String("against", "", "only compare zksh with zksh as it was at this `commit`")
	chosen := map[string]*bool{}
	for _, s := range sections {
		chosen[s.flag] = flag.Bool(s.flag, false, "measure "+s.title+", and no section that is not chosen")
	}
	flag.Parse()
	all := true
	for _, on := range chosen {
		all = all && !*on
	}
	// Keep the memory of this process low: Linux never reports a lower peak for a child process.
	debug.SetGCPercent(10)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(caught(func() {
		b, done := prepare(ctx, *quick)
		defer done()
		fmt.Print("# Benchmarks\n\n" + describe())
		if *quick {
			fmt.Print("- smoke run (-quick): the figures mean nothing\n")
		}
		if *against != "" {
			fmt.Printf("\n## Compared with %s\n\nRatios are medians over rounds in which each version had a turn, on a server without fsync.\n\n%s", *against, table(b.measureAgainst(*against)))
			return
		}
		for _, s := range sections {
			if all || *chosen[s.flag] {
				fmt.Fprintln(os.Stderr, "measuring", s.title)
				fmt.Printf("\n## %s\n\n%s\n\n%s", s.title, s.conditions, table(s.measure(b)))
			}
		}
	}))
}

// A failure is an error that ends the whole measurement. The function check panics with it.
type failure struct{ error }

// check ends the whole measurement if err is not nil, because incomplete results have no value. It
// panics, so that deferred functions still clean up.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns v, or ends the whole measurement if err is not nil.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// caught calls f. If check panics during the call, caught returns the error that was passed to
// check; otherwise, it returns nil.
func caught(f func()) (err error) {
	defer func() {
		switch got := recover().(type) {
		case nil:
		case failure:
			err = got
		default:
			panic(got)
		}
	}()
	f()
	return nil
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// prepare builds zksh and returns a bench for this run. The caller must call done at the end, to
// remove the temporary files.
func prepare(ctx context.Context, quick bool) (b *bench, done func()) {
	dir := must(os.MkdirTemp("", "zksh-bench-"))
	b = &bench{ctx: ctx, dir: dir, self: must(os.Executable()), zksh: filepath.Join(dir, "zksh"), quick: quick}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.zksh, ".")
	build.Dir, build.Stdout, build.Stderr = "../..", os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		os.RemoveAll(dir)
		check(fmt.Errorf("building zksh: %w", err))
	}
	if _, err := os.Stat(zkCliPath); err == nil {
		b.cli = zkCliPath
	}
	return b, func() { os.RemoveAll(dir) }
}

// serve starts a ZooKeeper server, and makes b use it from now on. The caller must call stop to
// end the server.
func (b *bench) serve(options ...zktest.Option) (stop func()) {
	addr, stop, err := zktest.Serve(must(os.MkdirTemp(b.dir, "server-")), append(options, zktest.Heap(heapMB))...)
	check(err)
	b.addr = addr
	return stop
}

// size returns the size of a measurement: full, or quick if the flag -quick is set.
func (b *bench) size(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

// describe returns a description of the machine and its current load. Call it before the
// measurements, because they increase the load.
func describe() string {
	find := func(file, pattern string) string {
		text, _ := os.ReadFile(file) // an error means that this system has no such file
		if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
			return string(m[1])
		}
		return "unknown"
	}
	return fmt.Sprintf("- date: %s\n- machine: %s, %d cores, load average %s at the start\n- system: %s, %s/%s, %s\n"+
		"- servers: on loopback, with Java's default compiler and collector, heap %d MiB\n",
		time.Now().Format(time.DateOnly), find("/proc/cpuinfo", `model name\s*: (.*)`), runtime.NumCPU(), find("/proc/loadavg", `^(\S+)`),
		find("/etc/os-release", `PRETTY_NAME="?([^"\n]*)`), runtime.GOOS, runtime.GOARCH, runtime.Version(), heapMB)
}
