package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// measureTrees measures commands that process large trees, such as walks over a million znodes,
// copies, exports and imports. The server is a sandbox.
func (b *bench) measureTrees() []*figure {
	addr, stop := b.onSandbox()
	defer stop()
	b.addr = addr
	fan, runs := b.size(1000, 100), b.size(5, 1)
	t := tree{"/million", 1 + fan + fan*fan, fan}
	sevens := 0
	for i := 1; i < t.nodes; i++ {
		if i%10 == 7 {
			sevens++
		}
	}
	var all []*figure
	b.make(t)
	for _, w := range []struct {
		args   []string
		expect string
		times  int
	}{
		{[]string{"ls", "-R", t.root}, "\n" + t.root, t.nodes},
		{[]string{"find", t.root, "-name", "*7"}, "7\n", sevens},
		{[]string{"du", t.root}, t.root + "/", t.fan},
	} {
		j := b.shell(b.zksh, w.args...)
		j.expect, j.times = w.expect, w.times
		got := b.byTurns(runs, j)[0]
		var first []time.Duration
		for _, s := range got {
			first = append(first, s.first)
		}
		all = append(all, (&figure{name: "`" + w.args[0] + "`, " + thousands(t.nodes) + " znodes; first line"}).
			rate(t.nodes, median(times(got)), 250_000).time(median(first), 50*time.Millisecond).memory(got, 64))
	}
	s := b.run(b.shell(b.zksh, "deleteall", t.root))
	b.checkRemoved(t)
	all = append(all, (&figure{name: "`deleteall`, " + thousands(t.nodes) + " znodes"}).rate(t.nodes, s.total, 0).memory([]sample{s}, 96))
	return append(append(all, b.copies(runs)), b.dumps()...)
}

// copies measures how long zksh takes to copy a tree to another server.
func (b *bench) copies(runs int) *figure {
	other, stop := b.onSandbox()
	defer stop()
	t := tree{"/copied", 10_000, 20}
	b.make(t)
	defer b.remove(t)
	j := b.shell(b.zksh, "cp", "-R", t.root, other+":/copy")
	j.expect, j.times = "Copied 10000 znodes", 1
	j.after = func() { b.run(job{path: b.zksh, args: []string{"-server", other, "deleteall", "/copy"}}) }
	return (&figure{name: "`cp -R`, 10,000 znodes to another server"}).time(median(times(b.byTurns(runs, j)[0])), 2*time.Second)
}

// dumps measures the export of a tree to a file, and the import from this file.
func (b *bench) dumps() []*figure {
	t := tree{"/kept", b.size(100_000, 10_000), 1000}
	file := filepath.Join(b.dir, "dump")
	list, export, imports := b.shell(b.zksh, "ls", "-R", t.root), b.shell(b.zksh, "export", "-R", t.root, file), b.shell(b.zksh, "import", "-R", file)
	list.expect, list.times = "\n"+t.root, t.nodes
	export.expect, export.times = "wrote ", 1
	imports.expect, imports.times = "created ", 1
	imports.before = func() { b.remove(t) }
	b.make(t)
	defer b.remove(t)
	// Write the file now, because byTurns may run the import before the export.
	b.run(export)
	got := b.byTurns(b.size(9, 1), list, export, imports)
	of := ", " + thousands(t.nodes) + " znodes"
	return []*figure{
		(&figure{name: "`export -R`" + of}).time(median(times(got[1])), 0).atMost(medianRatio(got[1], got[0]), 2, "`ls -R`").memory(got[1], 64),
		(&figure{name: "`import -R`" + of}).rate(t.nodes, median(times(got[2])), 20_000).memory(got[2], 64),
	}
}

// onSandbox starts a sandbox in a helper process and returns its address. The caller must call
// stop to end the process.
func (b *bench) onSandbox() (addr string, stop func()) {
	host := exec.CommandContext(b.ctx, b.self, helperArg, "sandbox")
	host.Stderr = os.Stderr
	in, out := must(host.StdinPipe()), must(host.StdoutPipe())
	check(host.Start())
	addr = must(bufio.NewReader(out).ReadString('\n'))
	return strings.TrimSpace(addr), func() { check(errors.Join(in.Close(), host.Wait())) }
}
