package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
)

// Goals on trees of a million znodes.
const (
	firstGoal  = 50 * time.Millisecond
	rateGoal   = 250_000 // znodes a second
	walkMemory = 64 << 20
	goneMemory = 96 << 20
)

// bigTree has a thousand children with a thousand children each.
func bigTree(quick bool) tree {
	if quick {
		return tree{"/million", 1 + 100 + 100*100, 100}
	}
	return tree{"/million", 1 + 1000 + 1000*1000, 1000}
}

// walks are the commands that are measured on it.
func walks(t tree, runs int) []task {
	sevens := 0
	for i := 1; i < t.nodes; i++ {
		if i%10 == 7 {
			sevens++
		}
	}
	of := func(what string) string { return what + " " + thousands(t.nodes) + " znodes" }
	return []task{
		{what: of("`ls -R`,"), command: []string{"ls", "-R", t.root}, expect: "\n" + t.root, times: t.nodes, runs: runs, goal: goals{memory: walkMemory}},
		{what: of("`find -name`,"), command: []string{"find", t.root, "-name", "*7"}, expect: "7\n", times: sevens, runs: runs, goal: goals{memory: walkMemory}},
		{what: of("`du`,"), command: []string{"du", t.root}, expect: t.root + "/", times: t.fan, runs: runs, goal: goals{memory: walkMemory}},
		{what: of("`deleteall`,"), command: []string{"deleteall", t.root}, tree: t, removes: true, runs: 1, goal: goals{memory: goneMemory}},
	}
}

// measureTrees measures walks over a tree of a million znodes, in a sandbox that is a
// process of its own.
func (b *bench) measureTrees(quick bool) (text string, err error) {
	on, stop, err := b.onSandbox()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t := bigTree(quick)
	if err := on.helper("make", t); err != nil {
		return "", err
	}
	runs := 5
	if quick {
		runs = 1
	}
	var table strings.Builder
	table.WriteString("\n## Trees of a million znodes\n\nOn the sandbox, in a process of its own.\n\n" +
		"| what | first line | goal | znodes a second | goal | memory | goal | met |\n| --- | --: | --: | --: | --: | --: | --: | --- |\n")
	for _, w := range walks(t, runs) {
		fmt.Fprintln(os.Stderr, "measuring", w.what)
		var all []sample
		for range w.runs {
			s, err := on.run(on.shell(on.zksh, w), w)
			if err != nil {
				return "", err
			}
			all = append(all, s)
		}
		table.WriteString(walkRow(w, t, all))
	}
	if err := on.helper("gone", t); err != nil {
		return "", err
	}
	copied, err := on.measureCopy(quick)
	if err != nil {
		return "", err
	}
	kept, err := on.measureDumps(quick)
	return table.String() + copied + kept, err
}

// onSandbox is b on a sandbox that is a process of its own until stop ends it.
func (b *bench) onSandbox() (on *bench, stop func() error, err error) {
	host := exec.CommandContext(b.ctx, b.self, helperArg, "sandbox")
	host.Stderr = os.Stderr
	in, err := host.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := host.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := host.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() error { return errors.Join(in.Close(), host.Wait()) }
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	other := *b
	other.addr = strings.TrimSpace(addr)
	return &other, stop, nil
}

// copyGoal is for copying 10,000 znodes to another server.
const copyGoal = 2 * time.Second

// measureCopy measures a copy from this server to another one.
func (b *bench) measureCopy(quick bool) (text string, err error) {
	other, stop, err := b.onSandbox()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t, runs := tree{"/copied", 10_000, fan}, 5
	if quick {
		runs = 1
	}
	if err := b.helper("make", t); err != nil {
		return "", err
	}
	var all []sample
	for i := range runs {
		dst := fmt.Sprintf("%s:/copy%d", other.addr, i)
		w := task{what: "cp", command: []string{"cp", "-R", t.root, dst}, expect: "Copied " + strconv.Itoa(t.nodes) + " znodes", times: 1}
		s, err := b.run(b.shell(b.zksh, w), w)
		if err != nil {
			return "", err
		}
		all = append(all, s)
	}
	took, met := medianTime(all), "yes"
	if took > copyGoal {
		met = "**no**"
	}
	return fmt.Sprintf("\n| what | time | goal | met |\n| --- | --: | --: | --- |\n| `cp -R`, %s znodes to another server | %s | ≤ %s | %s |\n",
		thousands(t.nodes), duration(took), duration(copyGoal), met), nil
}

// walkRow is a row of the table. deleteall prints nothing.
func walkRow(w task, t tree, all []sample) string {
	rate := int(float64(t.nodes) / medianTime(all).Seconds())
	first := median(each(all, func(s sample) time.Duration { return s.first }))
	met, shown, goal := "yes", duration(first), "≤ "+duration(firstGoal)
	if w.removes {
		first, shown, goal = 0, "–", "–"
	}
	if first > firstGoal || rate < rateGoal && !w.removes || peak(all) > w.goal.memory {
		met = "**no**"
	}
	rateShown := fmt.Sprintf("≥ %s", thousands(rateGoal))
	if w.removes {
		rateShown = "–"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | ≤ %s | %s |\n", w.what, shown, goal,
		thousands(rate), rateShown, mebibytes(peak(all)), mebibytes(w.goal.memory), met)
}

// serveSandbox serves a sandbox until standard input ends. It prints its address.
func serveSandbox() error {
	s := sandbox.New(sandbox.Options{MaxTreeBytes: 4 << 30})
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(addr)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.Close())
}
