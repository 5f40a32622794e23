package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// runLimit is more than any run takes.
const runLimit = 10 * time.Minute

// sample is one run of a program.
type sample struct {
	first  time.Duration // until the expected text was there
	total  time.Duration // until the exit
	memory int64         // peak, in bytes; 0 if the system does not tell
}

// watcher counts a text in what is written to it, and notes when it came first.
type watcher struct {
	text  string
	start time.Time
	first time.Duration
	count int
	tail  []byte // of what has passed, too short to hold the text
	end   []byte // of the output, for error messages
}

func newWatcher(text string) *watcher {
	return &watcher{text: text, tail: []byte{'\n'}, start: time.Now()} // a line begins at the start, too
}

// Write never fails.
func (w *watcher) Write(p []byte) (int, error) {
	const kept = 500
	w.end = append(w.end, p[max(0, len(p)-kept):]...)
	w.end = w.end[max(0, len(w.end)-kept):]
	if w.text == "" {
		return len(p), nil
	}
	// Only the seam between two writes needs a copy.
	n := min(len(p), len(w.text)-1)
	seam := append(w.tail, p[:n]...)
	found := bytes.Count(seam, []byte(w.text)) + bytes.Count(p, []byte(w.text))
	if found > 0 && w.count == 0 {
		w.first = time.Since(w.start)
	}
	w.count += found
	w.tail = append([]byte(nil), seam[max(0, len(seam)-len(w.text)+1):]...)
	if len(p) > n {
		w.tail = append([]byte(nil), p[len(p)-n:]...)
	}
	return len(p), nil
}

// bench is a measurement under way.
type bench struct {
	ctx   context.Context
	dir   string
	addr  string // of the server
	self  string // this program
	zksh  string
	zkCli string // empty if not installed
}

// program is a command line with what its environment has besides.
type program struct {
	path string
	args []string
	env  string
}

// environment is the same for all: nobody's configuration and history.
func (b *bench) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8", "USER=bench"}
}

// run runs a program and checks that the output has what the task expects.
func (b *bench) run(p program, t task) (sample, error) {
	ctx, cancel := context.WithTimeout(b.ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env = b.environment()
	if p.env != "" {
		cmd.Env = append(cmd.Env, p.env)
	}
	ownGroup(cmd)
	if t.input != "" {
		cmd.Stdin = strings.NewReader(t.input)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return sample{}, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = in, in
	w := newWatcher(t.expect)
	if err := cmd.Start(); err != nil {
		in.Close()
		return sample{}, err
	}
	in.Close() // the child has its own copy
	_, copyErr := io.CopyBuffer(w, struct{ io.Reader }{out}, make([]byte, 64<<10))
	err = cmd.Wait()
	s := sample{first: w.first, total: time.Since(w.start), memory: peakMemory(cmd.ProcessState)}
	if err := errors.Join(copyErr, err); err != nil {
		return s, fmt.Errorf("%s: %w; its output ended with %q", p.path, err, w.end)
	}
	if w.count != t.times {
		return s, fmt.Errorf("%s: want %q %d times in the output, got it %d times; the output ended with %q", p.path, t.expect, t.times, w.count, w.end)
	}
	return s, nil
}

// helper runs one of the helper's jobs to its end.
func (b *bench) helper(verb string, t tree) error {
	_, err := b.run(b.helperProgram(verb, t), task{})
	return err
}

func (b *bench) helperProgram(verb string, t tree) program {
	return program{path: b.self, args: append([]string{helperArg, b.addr}, t.args(verb)...)}
}

func (b *bench) shell(path string, t task) program {
	return program{path: path, args: append([]string{"-server", b.addr}, t.command...)}
}

// measure runs a task as often as it wants, the programs by turns.
func (b *bench) measure(t task) ([]row, error) {
	r := row{task: t}
	if !t.each {
		if err := b.makeTree(t); err != nil {
			return nil, err
		}
	}
	cli := b.shell(b.zkCli, t)
	cliRuns := t.cliRuns
	if b.zkCli == "" {
		cliRuns = 0
	}
	if cliRuns > 0 && t.jvmFlag != "" {
		if _, err := b.once(cli, t); err != nil {
			r.cliFailed, cli.env = true, "CLIENT_JVMFLAGS="+t.jvmFlag
		}
	}
	for i := range max(t.runs, cliRuns) {
		progs := []struct {
			program
			to   *[]sample
			runs int
		}{
			{b.shell(b.zksh, t), &r.zksh, t.runs},
			{b.helperProgram("creates", tree{t.tree.root, t.times, 1}), &r.bare, t.runs},
			{cli, &r.cli, cliRuns},
		}
		if i%2 == 1 { // neither of the two always has the first turn
			progs[0], progs[1] = progs[1], progs[0]
		}
		for _, p := range progs {
			if i >= p.runs || p.to == &r.bare && !t.bare {
				continue
			}
			s, err := b.once(p.program, t)
			if err != nil {
				return nil, err
			}
			*p.to = append(*p.to, s)
		}
	}
	if !t.each {
		if err := b.clear(t); err != nil {
			return nil, err
		}
	}
	r.log(os.Stderr)
	if t.first {
		return []row{r.firstResult(), r.untilExit()}, nil
	}
	return []row{r}, nil
}

// once is one run with what must come before it and after it.
func (b *bench) once(p program, t task) (sample, error) {
	if t.each {
		if err := b.makeTree(t); err != nil {
			return sample{}, err
		}
	}
	s, err := b.run(p, t)
	if err != nil || !t.each {
		return s, err
	}
	return s, b.clear(t)
}

func (b *bench) makeTree(t task) error {
	if t.tree.nodes == 0 {
		return nil
	}
	return b.helper("make", t.tree)
}

// clear removes what is left of the tree, or checks that the task has removed it.
func (b *bench) clear(t task) error {
	if t.tree.nodes == 0 {
		return nil
	}
	if !t.removes {
		if _, err := b.run(b.shell(b.zksh, task{command: []string{"deleteall", t.tree.root}}), task{}); err != nil {
			return err
		}
	}
	return b.helper("gone", t.tree)
}

// warmUp has the server's Java machine compile what will be measured: until then its
// compiler takes a core away.
func (b *bench) warmUp(s sizes) error {
	for range 8 {
		for _, t := range tasks(s)[:5] {
			if _, err := b.once(b.shell(b.zksh, t), task{
				input: t.input, tree: t.tree, each: true, removes: t.removes, expect: t.expect, times: t.times,
			}); err != nil {
				return fmt.Errorf("warming up: %w", err)
			}
		}
	}
	return nil
}
