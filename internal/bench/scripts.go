package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/zksh/zksh/internal/zktest"
)

// inFlight is the maximum number of requests that the bare loop over go-zookeeper keeps in flight.
// It equals the default window of zksh.
const inFlight = 64

// measureScripts measures how fast zksh runs scripts, and the memory that it needs. The server
// writes each transaction to disk before it replies.
func (b *bench) measureScripts() []*figure {
	defer b.serve(zktest.JavaProperty("zookeeper.forceSync", "yes"))()
	all := b.pipedCreates(b.size(1000, 100), b.size(21, 1))
	return append(all, b.mixedLines(b.size(100_000, 2000)))
}

// pipedCreates measures n create commands that are piped to a program. zksh runs them with the
// default window, with -e, with a window of 1, and while it holds a lock. The other programs are
// zkCli, and a bare loop over go-zookeeper with the same window as zksh.
func (b *bench) pipedCreates(n, rounds int) []*figure {
	root := tree{"/piped", 1, 1}
	script := func(path, before string, every int, options ...string) job {
		j := b.shell(path, options...)
		j.input, j.expect, j.times, j.every = before+createLines(root.root, n), "Created "+root.root+"/", n, every
		return b.onFreshTree(root, j, b.remove)
	}
	loop := b.helper("window", root, n)
	loop.expect, loop.times = "Created "+root.root+"/", n
	loop = b.onFreshTree(root, loop, b.remove)
	window, exact := script(b.zksh, "", 1), script(b.zksh, "", 1, "-e")
	// Warm up the server with several hundred thousand requests, until Java's optimizing compiler
	// has compiled its code, as in production. Before that, the server writes to its disk at a
	// different rate.
	for range b.size(150, 1) {
		b.runOnce(window)
		b.runOnce(exact)
		b.runOnce(loop)
	}
	const lock = "lock /piped-lock\n"
	got := b.byTurns(rounds, window, loop, exact, script(b.zksh, "", 3, "--window", "1"), script(b.cli, "", 3),
		script(b.zksh, lock, 1), script(b.zksh, lock, 1, "--no-fence"))
	what := thousands(n) + " piped creates"
	all := []*figure{
		(&figure{name: what}).time(median(times(got[0])), 0).atMost(medianRatio(got[0], got[1]), 1.3, "a bare loop with the same window"),
		(&figure{name: what}).atLeast(medianRatio(got[3], got[0]), 5, "`--window 1`, "+duration(median(times(got[3])))),
		(&figure{name: what + " with `-e`"}).time(median(times(got[2])), 0).atMost(medianRatio(got[2], got[0]), 1, "the window"),
		(&figure{name: what + " under a lock, fenced"}).time(median(times(got[5])), 0).atMost(medianRatio(got[5], got[6]), 1.4, "`--no-fence`"),
	}
	if b.cli != "" {
		all = append(all, (&figure{name: what}).atLeast(medianRatio(got[4], got[0]), 6, "`zkCli.sh`"))
	}
	return all
}

// mixedLines measures the time and memory that zksh needs for a script with n lines of various
// commands.
func (b *bench) mixedLines(n int) *figure {
	name := filepath.Join(b.dir, "mixed")
	var script strings.Builder
	for i := range n / 5 {
		script.WriteString(strings.ReplaceAll("create P data\nget P\nset P other\nstat P\ndelete P\n", "P", childPath("/mixed", i)))
	}
	check(os.WriteFile(name, []byte(script.String()), 0o600))
	j := b.shell(b.zksh, "-f", name)
	j.expect, j.times = "Created /mixed/", n/5
	s := b.runOnce(b.onFreshTree(tree{"/mixed", 1, 1}, j, b.remove))
	return (&figure{name: thousands(n) + " mixed lines"}).time(s.total, 0).memory([]sample{s}, 32)
}
