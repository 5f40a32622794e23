package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/zksh/zksh/internal/zktest"
)

// inFlight is zksh's default window, which the bare loop has as well.
const inFlight = 64

// measureScripts measures lines from a pipe, on a server that writes each
// transaction to the disk before it answers.
func (b *bench) measureScripts() []*figure {
	defer b.serve(zktest.JavaProperty("zookeeper.forceSync", "yes"))()
	all := b.pipedCreates(b.of(1000, 100), b.of(21, 1))
	return append(all, b.mixedLines(b.of(100_000, 2000)))
}

// pipedCreates measures creates with the window, with -e, one by one, by a bare
// loop with the same window, by zkCli, and under a lock.
func (b *bench) pipedCreates(n, rounds int) []*figure {
	root := tree{"/piped", 1, 1}
	script := func(path, before string, every int, options ...string) job {
		j := b.shell(path, options...)
		j.input, j.expect, j.times, j.every = before+createLines(root.root, n), "Created "+root.root+"/", n, every
		return b.fresh(root, j, b.remove)
	}
	loop := b.helper("window", root, n)
	loop.expect, loop.times = "Created "+root.root+"/", n
	loop = b.fresh(root, loop, b.remove)
	window, exact := script(b.zksh, "", 1), script(b.zksh, "", 1, "-e")
	// A server in service has compiled with its best compiler what it does all day, which
	// takes Java some hundred thousand requests: before, the disk writes beside a window differ.
	for range b.of(150, 1) {
		b.once(window)
		b.once(exact)
		b.once(loop)
	}
	const lock = "lock /piped-lock\n"
	got := b.byTurns(rounds, window, loop, exact, script(b.zksh, "", 3, "--window", "1"), script(b.cli, "", 3),
		script(b.zksh, lock, 1), script(b.zksh, lock, 1, "--no-fence"))
	what := thousands(n) + " piped creates"
	all := []*figure{
		(&figure{what: what}).time(median(times(got[0])), 0).atMost(over(got[0], got[1]), 1.3, "a bare loop with the same window"),
		(&figure{what: what}).atLeast(over(got[3], got[0]), 5, "`--window 1`, "+duration(median(times(got[3])))),
		(&figure{what: what + " with `-e`"}).time(median(times(got[2])), 0).atMost(over(got[2], got[0]), 1, "the window"),
		(&figure{what: what + " under a lock, fenced"}).time(median(times(got[5])), 0).atMost(over(got[5], got[6]), 1.4, "`--no-fence`"),
	}
	if b.cli != "" {
		all = append(all, (&figure{what: what}).atLeast(over(got[4], got[0]), 6, "`zkCli.sh`"))
	}
	return all
}

// mixedLines measures the memory of a long script.
func (b *bench) mixedLines(n int) *figure {
	name := filepath.Join(b.dir, "mixed")
	var script strings.Builder
	for i := range n / 5 {
		script.WriteString(strings.ReplaceAll("create P data\nget P\nset P other\nstat P\ndelete P\n", "P", childPath("/mixed", i)))
	}
	check(os.WriteFile(name, []byte(script.String()), 0o600))
	j := b.shell(b.zksh, "-f", name)
	j.expect, j.times = "Created /mixed/", n/5
	s := b.once(b.fresh(tree{"/mixed", 1, 1}, j, b.remove))
	return (&figure{what: thousands(n) + " mixed lines"}).time(s.total, 0).memory([]sample{s}, 32)
}
