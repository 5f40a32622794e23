package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildCommit builds zksh as it was at the given revision, which may be any that git accepts. It
// returns the path of the program.
func (b *bench) buildCommit(revision string) string {
	source, archive, program := filepath.Join(b.dir, "source"), filepath.Join(b.dir, "source.tar"), filepath.Join(b.dir, "zksh-before")
	check(os.Mkdir(source, 0o700))
	for _, c := range []struct {
		dir  string
		args []string
	}{
		{"../..", []string{"git", "archive", "-o", archive, revision}},
		{source, []string{"tar", "-xf", archive}},
		{source, []string{"go", "build", "-trimpath", "-o", program, "."}},
	} {
		cmd := exec.CommandContext(b.ctx, c.args[0], c.args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			check(fmt.Errorf("building zksh of commit %s: %q: %w", revision, c.args, err))
		}
	}
	return program
}

// measureAgainst compares the current zksh with an earlier revision. It runs the same commands
// and scripts with both programs in turn. Each figure is the ratio of the new value to the old
// one.
func (b *bench) measureAgainst(revision string) []*figure {
	before := b.buildCommit(revision)
	defer b.serve()()
	large, many, some := b.size(100_000, 1000), b.size(100_000, 500), b.size(30_000, 500)
	one, deep, fresh := tree{"/one", 2, 1}, tree{"/deep", large, 20}, tree{"/fresh", 1, 1}
	b.make(one)
	b.make(deep)
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	output := filepath.Join(b.dir, "export")

	all := []*figure{}
	for _, m := range []struct {
		what   string
		rounds int
		input  string
		fresh  bool // whether each run needs a new znode /fresh
		args   []string
	}{
		{what: "`--version`", rounds: 41, args: []string{"--version"}},
		{what: "`get`", rounds: 41, args: []string{"get", one.root}},
		{what: "`ls -R`, " + thousands(large) + " znodes", rounds: 15, args: []string{"ls", "-R", deep.root}},
		{what: "`export -R`, " + thousands(large) + " znodes", rounds: 9, args: []string{"export", "-R", deep.root, output}},
		{what: "`cp -R` and `deleteall`, " + thousands(large) + " znodes", rounds: 5, input: "cp -R " + deep.root + " /fresh/copy\ndeleteall /fresh/copy\n", fresh: true},
		{what: thousands(many) + " piped gets", rounds: 15, input: lines(many, "get "+one.root)},
		{what: thousands(some) + " piped sets", rounds: 15, input: lines(some, "set "+one.root+" data")},
		{what: thousands(some) + " piped sets with `-e`", rounds: 15, input: lines(some, "set "+one.root+" data"), args: []string{"-e"}},
		{what: thousands(some) + " piped creates", rounds: 15, input: createLines(fresh.root, some), fresh: true},
		{what: "`lock` with a command", rounds: 41, args: []string{"lock", "/lock", "--", "true"}},
		{what: "500 pairs of `lock` and `unlock`", rounds: 15, input: lines(500, "lock /lock\nunlock /lock")},
	} {
		jobs := []job{b.shell(b.zksh, m.args...), b.shell(before, m.args...)}
		for i := range jobs {
			jobs[i].input = m.input
			if m.fresh {
				jobs[i] = b.onFreshTree(fresh, jobs[i], b.remove)
			}
			b.runOnce(jobs[i]) // warm up the server
		}
		got := b.byTurns(b.size(m.rounds, 1), jobs...)
		all = append(all, (&figure{name: m.what}).time(median(times(got[0])), 0).
			atMost(medianRatio(got[0], got[1]), 0, "the time").
			atMost(medianRatio(processor(got[0]), processor(got[1])), 0, "the processor time"))
	}
	return all
}

// processor returns samples whose total time is the processor time of the given samples. The
// function medianRatio can then compare processor times.
func processor(runs []sample) []sample {
	all := make([]sample, len(runs))
	for i, s := range runs {
		all[i].total = s.processor
	}
	return all
}
