package main

import "time"

// measureCommands measures single commands, and scripts that create znodes one after another.
func (b *bench) measureCommands() (all []*figure) {
	defer b.serve()()
	creates, small, large := b.size(1000, 100), b.size(20_000, 2000), b.size(100_000, 10_000)
	one := tree{"/one", 1, 1}
	nested, flat := tree{"/nested", small, 20}, tree{"/flat", small, small}
	wide, deep := tree{"/wide", large + 1, large}, tree{"/large", large, 20}

	// both returns two jobs that run the same command: the first in zksh, the second in zkCli. The
	// output must contain expect the given number of times. zkCli is slow, so its job runs only in
	// every n-th round.
	both := func(n int, expect string, times int, args ...string) []job {
		ours := b.shell(b.zksh, args...)
		ours.expect, ours.times = expect, times
		theirs := ours
		theirs.path, theirs.every = b.cli, n
		return []job{ours, theirs}
	}
	beside := func(what string, got [][]sample, goal time.Duration, faster float64, goalMiB int64) *figure {
		f := (&figure{name: what}).time(median(times(got[0])), goal).add("fastest %s", duration(percentile(times(got[0]), 0)))
		if theirs := median(times(got[1])); theirs > 0 {
			f.atLeast(float64(theirs)/float64(median(times(got[0]))), faster, "zkCli.sh's "+duration(theirs))
		}
		return f.memory(got[0], goalMiB)
	}
	lists := func(t tree, every int) []job { return both(every, "\n"+t.root, t.nodes, "ls", "-R", t.root) }
	deletes := func(t tree, every int) []job {
		jobs := both(every, "", 0, "deleteall", t.root)
		return []job{b.onFreshTree(t, jobs[0], b.checkRemoved), b.onFreshTree(t, jobs[1], b.checkRemoved)}
	}
	list := both(6, "zookeeper]", 1, "ls", "/")
	lines := both(10, "Created "+one.root+"/", creates)
	loop := b.helper("loop", one, creates)
	loop.expect, loop.times = lines[0].expect, creates
	lines = append(lines, loop)
	for i := range lines {
		if i < 2 {
			lines[i].input = createLines(one.root, creates)
		}
		lines[i] = b.onFreshTree(one, lines[i], b.remove)
	}

	// Warm up the server: Java's compiler uses one core until it has compiled the server's code.
	for range b.size(8, 1) {
		for _, j := range []job{list[0], lines[0], deletes(nested, 1)[0], deletes(flat, 1)[0], b.onFreshTree(nested, lists(nested, 1)[0], b.remove)} {
			b.runOnce(j)
		}
	}
	got := b.byTurns(b.size(41, 1), list...)
	var first [2][]sample
	for i, runs := range got {
		for _, s := range runs {
			first[i] = append(first[i], sample{total: s.first, memory: s.memory})
		}
	}
	all = append(all, beside("`ls /` as a single command, first output", first[:], 10*time.Millisecond, 20, 15),
		beside("the same, until exit", got, 0, 0, 15))
	got = b.byTurns(b.size(21, 1), lines...)
	all = append(all, beside(thousands(creates)+" piped creates", got, 0, 0, 15).
		atMost(medianRatio(got[0], got[2]), 1.1, "the bare loop's "+duration(median(times(got[2])))))

	rounds := b.size(9, 1)
	onTree := func(what string, t tree, jobs []job, goal time.Duration, faster float64) {
		if jobs[0].before == nil {
			b.make(t)
			defer b.remove(t)
		}
		all = append(all, beside(what, b.byTurns(rounds, jobs...), goal, faster, 64))
	}
	for _, t := range []tree{nested, flat} {
		of := ", " + thousands(small) + " znodes, " + t.root[1:]
		onTree("`deleteall`"+of, t, deletes(t, 3), 300*time.Millisecond, 15)
		onTree("`ls -R`"+of, t, lists(t, 3), 200*time.Millisecond, 0)
	}
	children := both(3, ", ", large-1, "ls", wide.root)
	children[1].env = "CLIENT_JVMFLAGS=-Djute.maxbuffer=67108864" // otherwise, zkCli fails
	onTree("`ls`, "+thousands(large)+" children", wide, children, 0, 0)
	onTree("`ls -R`, "+thousands(large)+" znodes, nested", deep, lists(deep, rounds), 0, 0)
	onTree("`deleteall`, "+thousands(large)+" znodes, nested", deep, deletes(deep, rounds), 0, 0)
	return all
}
