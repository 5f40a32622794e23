package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// inFlight is zksh's default window, which the bare loop has as well.
const inFlight = 64

// ratio is the figure of so many times something, at most or at least the goal.
func ratio(what string, got float64, goal float64, least bool) figure {
	if least {
		return figure{what, fmt.Sprintf("%.2f ×", got), fmt.Sprintf("≥ %.1f ×", goal), got >= goal}
	}
	return figure{what, fmt.Sprintf("%.2f ×", got), fmt.Sprintf("≤ %.1f ×", goal), got <= goal}
}

// scriptSizes are how much there is to do, and how often.
type scriptSizes struct{ lines, mixed, asked, rounds, warmUps int }

// slowTurns is how many rounds there are to one turn of what is slow.
const slowTurns = 3

// measureScripts measures lines from a pipe, on a server of its own that writes each
// transaction to the disk before it answers.
func (b *bench) measureScripts(ctx context.Context, quick bool) (all []figure, err error) {
	addr, stop, err := zktest.Serve(filepath.Join(b.dir, "fsync"), zktest.Heap(heapMB), zktest.JavaProperty("zookeeper.forceSync", "yes"))
	if err != nil {
		return nil, err
	}
	defer stop()
	on := *b
	on.ctx, on.addr = ctx, addr
	n := scriptSizes{lines: 1000, mixed: 100_000, asked: 300, rounds: 21, warmUps: 150}
	if quick {
		n = scriptSizes{lines: 100, mixed: 2000, asked: 10, rounds: 1, warmUps: 1}
	}
	for _, measure := range []func(scriptSizes) ([]figure, error){on.pipedCreates, on.fencedCreates, on.mixedLines, on.coprocess} {
		got, err := measure(n)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}

// script is zksh with these options before its input.
func (b *bench) script(options ...string) program {
	return program{path: b.zksh, args: append([]string{"-server", b.addr}, options...)}
}

// pipedCreates are run by all by turns, and compared round by round.
func (b *bench) pipedCreates(n scriptSizes) ([]figure, error) {
	one := tree{"/piped", 1, 1}
	t := task{input: createLines(one.root, n.lines), expect: "Created " + one.root + "/", times: n.lines, tree: one, each: true}
	loop := b.helperProgram("window", tree{one.root, n.lines, 1})
	window, exact, single, cli := b.script(), b.script("-e"), b.script("--window", "1"), b.script()
	cli.path = b.zkCli
	// A server in service has compiled with its best compiler what it does all day, which
	// takes java some hundred thousand requests: before, the disk writes beside a window differ.
	for range n.warmUps {
		for _, p := range []program{window, exact, loop} {
			if _, err := b.once(p, t); err != nil {
				return nil, fmt.Errorf("warming up: %w", err)
			}
		}
	}
	var times [5][]time.Duration // of each round; 0: it had no turn
	for i := range n.rounds {
		order := []int{0, 1, 2, 3, 4}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, which := range order {
			if which > 2 && i%slowTurns != 0 || which == 4 && b.zkCli == "" {
				times[which] = append(times[which], 0)
				continue
			}
			s, err := b.once([]program{window, loop, exact, single, cli}[which], t)
			if err != nil {
				return nil, err
			}
			times[which] = append(times[which], s.total)
		}
	}
	slow := slices.DeleteFunc(slices.Clone(times[3]), func(d time.Duration) bool { return d == 0 })
	what := thousands(n.lines) + " piped creates"
	took := fmt.Sprintf("%s, which take %s (-e: %s; one by one: %s)", what,
		duration(median(times[0])), duration(median(times[2])), duration(median(slow)))
	figures := []figure{
		ratio(took+", relative to a bare loop with the same window", over(times[0], times[1]), 1.3, false),
		ratio(what+", speed relative to `--window 1`", over(times[3], times[0]), 5, true),
		ratio(what+" with `-e`, time relative to the window", over(times[2], times[0]), 1, false),
	}
	if b.zkCli != "" {
		figures = append(figures, ratio(what+", speed relative to `zkCli.sh`", over(times[4], times[0]), 6, true))
	}
	return figures, nil
}

// over is the median of one over the other, of the rounds in which both had a turn.
func over(above, below []time.Duration) float64 {
	var v []float64
	for i := range above {
		if above[i] > 0 && below[i] > 0 {
			v = append(v, float64(above[i])/float64(below[i]))
		}
	}
	return median(v)
}

// fencedCreates are creates under a lock, by turns with the fence and without.
func (b *bench) fencedCreates(n scriptSizes) ([]figure, error) {
	one := tree{"/piped", 1, 1}
	t := task{
		input: "lock " + one.root + "-lock\n" + createLines(one.root, n.lines), expect: "Created " + one.root + "/", times: n.lines,
		tree: one, each: true,
	}
	var fenced, free []time.Duration
	for i := range n.rounds {
		for turn := range 2 {
			options, times := []string{}, &fenced
			if (i+turn)%2 == 1 {
				options, times = []string{"--no-fence"}, &free
			}
			s, err := b.once(b.script(options...), t)
			if err != nil {
				return nil, err
			}
			*times = append(*times, s.total)
		}
	}
	what := fmt.Sprintf("%s creates under a lock, fenced, which take %s, beside `--no-fence`", thousands(n.lines), duration(median(fenced)))
	return []figure{ratio(what, over(fenced, free), 1.4, false)}, nil
}

// mixedLines looks at the memory of a long script.
func (b *bench) mixedLines(n scriptSizes) ([]figure, error) {
	const goal = 32 << 20
	name := filepath.Join(b.dir, "mixed")
	var script strings.Builder
	for i := range n.mixed / 5 {
		path := fmt.Sprintf("/mixed/node-%d", i)
		fmt.Fprintf(&script, "create %s data\nget %s\nset %s other\nstat %s\ndelete %s\n", path, path, path, path, path)
	}
	if err := os.WriteFile(name, []byte(script.String()), 0o600); err != nil {
		return nil, err
	}
	t := task{tree: tree{"/mixed", 1, 1}, each: true, expect: "Created /mixed/", times: n.mixed / 5}
	s, err := b.once(b.script("-f", name), t)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s mixed lines, in %s: peak memory", thousands(n.mixed), duration(s.total))
	return []figure{{what, mebibytes(s.memory), "≤ " + mebibytes(goal), s.memory <= goal}}, nil
}

// coprocess asks through one pipe and waits for the answer on the other, by turns of
// several zksh.
func (b *bench) coprocess(n scriptSizes) ([]figure, error) {
	var all [3]*asked
	for i, options := range [][]string{{"--window", "1"}, {}, {"-e"}} {
		a, err := b.ask(options...)
		if err != nil {
			return nil, err
		}
		defer a.kill()
		all[i] = a
	}
	var times [3][]time.Duration
	for range n.asked {
		for i, a := range all {
			took, err := a.list()
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	for _, a := range all {
		if err := a.leave(); err != nil {
			return nil, err
		}
	}
	one := median(times[0])
	what := fmt.Sprintf("a line through a coprocess, time relative to `--window 1`, which takes %s", duration(one))
	return []figure{ // the same but for what two runs of the same differ by
		ratio(what, float64(median(times[1]))/float64(one), 1.1, false),
		ratio(what+", with `-e`", float64(median(times[2]))/float64(one), 1.1, false),
	}, nil
}

// asked is a zksh at two pipes.
type asked struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (b *bench) ask(options ...string) (*asked, error) {
	p := b.script(options...)
	cmd := exec.CommandContext(b.ctx, p.path, p.args...)
	cmd.Env = b.environment()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a := &asked{cmd, in, bufio.NewReader(out)}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, err = a.list() // once it is connected
	return a, err
}

// list asks what is in /, and waits for the answer.
func (a *asked) list() (time.Duration, error) {
	start := time.Now()
	if _, err := io.WriteString(a.in, "ls /\n"); err != nil {
		return 0, err
	}
	_, err := a.out.ReadString('\n')
	return time.Since(start), err
}

func (a *asked) leave() error {
	err := a.in.Close()
	return errors.Join(err, a.cmd.Wait())
}

// kill ends one that has not left.
func (a *asked) kill() { _ = a.cmd.Process.Kill() }

// scriptTable is the part of the report on scripts.
func scriptTable(figures []figure) string {
	return "\n## Scripts\n\nWith fsync, on a server of its own; ratios are medians over rounds by turns.\n\n" + table("measured", figures...)
}
