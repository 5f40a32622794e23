package main

import (
	"strconv"
	"strings"
	"time"
)

// sizes are how much there is to do, and how often.
type sizes struct {
	creates, small, large int // nodes
	oneShots              int // runs of ls /
	pairs                 int // runs of the creates, interleaved with the bare loop
	runs                  int // of all else
	cliOneShots, cliRuns  int // the same of zkCli.sh, which is slow
	cliLarge              int // and on the large trees
}

var (
	full  = sizes{creates: 1000, small: 20_000, large: 100_000, oneShots: 41, pairs: 21, runs: 9, cliOneShots: 7, cliRuns: 3, cliLarge: 1}
	smoke = sizes{creates: 100, small: 2000, large: 10_000, oneShots: 1, pairs: 1, runs: 1, cliOneShots: 1, cliRuns: 1, cliLarge: 1}
)

// cliRunsFor spares the minutes that zkCli.sh takes for a large tree.
func (s sizes) cliRunsFor(t tree) int {
	if t.nodes >= s.large {
		return s.cliLarge
	}
	return s.cliRuns
}

// fan is the number of children of each node of a nested tree.
const fan = 20

// goals are what a task shall reach; zero means no goal.
type goals struct {
	time   time.Duration
	bare   float64 // times the bare loop's time, at most
	faster float64 // times as fast as zkCli.sh, at least
	memory int64   // bytes
}

const (
	smallMemory = 15 << 20
	treeMemory  = 64 << 20
)

// task is one command to be measured.
type task struct {
	what    string
	command []string
	input   string // piped instead of a command
	expect  string // occurs in the output so many times
	times   int

	tree    tree // there when the command starts; without nodes: none
	each    bool // the tree is made anew for each run
	removes bool // the command removes the tree

	first   bool   // a row for the first result besides the one until the exit
	bare    bool   // the bare loop runs beside it
	jvmFlag string // what zkCli.sh needs to succeed, if it fails without

	goal          goals
	runs, cliRuns int
}

func tasks(s sizes) []task {
	one := tree{"/one", 1, 1}
	nested, flat := tree{"/nested", s.small, fan}, tree{"/flat", s.small, s.small}
	wide, large := tree{"/wide", s.large + 1, s.large}, tree{"/large", s.large, fan}
	of := func(verb string, n int) string { return verb + " " + thousands(n) + " nodes" }
	deletes := func(what string, t tree, g goals) task {
		g.memory = treeMemory
		return task{
			what: what, command: []string{"deleteall", t.root}, tree: t, each: true, removes: true,
			goal: g, runs: s.runs, cliRuns: s.cliRunsFor(t),
		}
	}
	lists := func(what string, t tree, g goals) task {
		g.memory = treeMemory
		return task{
			what: what, command: []string{"ls", "-R", t.root}, expect: "\n" + t.root, times: t.nodes, tree: t,
			goal: g, runs: s.runs, cliRuns: s.cliRunsFor(t),
		}
	}
	delGoal := goals{time: 300 * time.Millisecond, faster: 15}
	return []task{
		{
			what: "`ls /` as a single command", command: []string{"ls", "/"}, expect: "zookeeper]", times: 1, first: true,
			goal: goals{time: 10 * time.Millisecond, faster: 20, memory: smallMemory},
			runs: s.oneShots, cliRuns: s.cliOneShots,
		},
		{
			what: thousands(s.creates) + " piped creates", input: createLines(one.root, s.creates),
			expect: "Created " + one.root + "/", times: s.creates, tree: one, each: true, bare: true,
			goal: goals{bare: 1.1, memory: smallMemory}, runs: s.pairs, cliRuns: s.cliRuns,
		},
		deletes(of("`deleteall`,", s.small)+" nested", nested, delGoal),
		deletes(of("`deleteall`,", s.small)+" flat", flat, delGoal),
		lists(of("`ls -R`,", s.small)+" nested", nested, goals{time: 200 * time.Millisecond}),
		lists(of("`ls -R`,", s.small)+" flat", flat, goals{time: 200 * time.Millisecond}),
		{
			what: "`ls`, " + thousands(s.large) + " children", command: []string{"ls", wide.root}, expect: ", ",
			times: s.large - 1, tree: wide, jvmFlag: "-Djute.maxbuffer=67108864",
			goal: goals{memory: treeMemory}, runs: s.runs, cliRuns: s.cliRuns,
		},
		lists(of("`ls -R`,", s.large)+" nested", large, goals{}),
		deletes(of("`deleteall`,", s.large)+" nested", large, goals{}),
	}
}

// createLines is the script that creates n children of root.
func createLines(root string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("create " + childPath(root, i) + " data\n")
	}
	return b.String()
}

// thousands writes n with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
