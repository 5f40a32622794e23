package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// runLimit is longer than any run takes.
const runLimit = 10 * time.Minute

// job is a program to run, and the output to expect of it.
type job struct {
	path          string // empty: the program is not installed
	args          []string
	env, input    string
	expect        string // occurs in the output so many times
	times         int
	every         int    // by turns with others: only in one round of so many
	before, after func() // each run
}

// sample is one run of a program. All is 0 if the program had no turn.
type sample struct {
	first  time.Duration // until the expected text appeared
	total  time.Duration // until exit
	memory int64         // peak, in bytes; 0 if the system does not report it
}

// watcher counts a text in the output written to it, and notes when it came first.
type watcher struct {
	text  string
	start time.Time
	first time.Duration
	count int
	end   []byte // of the output, for error messages, and in which the text may have begun
}

// Write never fails.
func (w *watcher) Write(p []byte) (int, error) {
	const kept = 500
	if w.text != "" {
		// Only the seam between two writes needs a copy.
		seam := append(bytes.Clone(w.end[max(0, len(w.end)-len(w.text)+1):]), p[:min(len(p), len(w.text)-1)]...)
		found := bytes.Count(seam, []byte(w.text)) + bytes.Count(p, []byte(w.text))
		if found > 0 && w.count == 0 {
			w.first = time.Since(w.start)
		}
		w.count += found
	}
	w.end = append(w.end, p[max(0, len(p)-kept):]...)
	w.end = w.end[max(0, len(w.end)-kept):]
	return len(p), nil
}

// environment is the same for all programs: nobody's configuration and history.
func (b *bench) environment(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8", "USER=bench"}, more...)
}

// run runs a job and checks its output.
func (b *bench) run(j job) sample {
	ctx, cancel := context.WithTimeout(b.ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.path, j.args...)
	cmd.Env = b.environment(j.env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // zkCli.sh starts Java, which must end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if j.input != "" {
		cmd.Stdin = strings.NewReader(j.input)
	}
	out, in, err := os.Pipe()
	check(err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = in, in
	w := &watcher{text: j.expect, end: []byte{'\n'}, start: time.Now()} // a line begins at the start, too
	err = cmd.Start()
	in.Close() // the child has its own copy
	check(err)
	_, copyErr := io.CopyBuffer(w, struct{ io.Reader }{out}, make([]byte, 64<<10))
	err = errors.Join(copyErr, cmd.Wait())
	s := sample{first: w.first, total: time.Since(w.start), memory: peakMemory(cmd.ProcessState)}
	if err == nil && w.count != j.times {
		err = fmt.Errorf("want %q %d times in the output, got it %d times", j.expect, j.times, w.count)
	}
	if err != nil {
		check(fmt.Errorf("%s %q: %w; the output ended with %q", j.path, j.args, err, w.end))
	}
	return s
}

// once runs a job with what must happen before it and after it.
func (b *bench) once(j job) sample {
	if j.before != nil {
		j.before()
	}
	s := b.run(j)
	if j.after != nil {
		j.after()
	}
	return s
}

// byTurns runs each job once a round, and returns the samples of each job, one
// for each round. No job always has the first turn.
func (b *bench) byTurns(rounds int, jobs ...job) [][]sample {
	all := make([][]sample, len(jobs))
	for i := range rounds {
		for k := range jobs {
			if i%2 == 1 {
				k = len(jobs) - 1 - k
			}
			var s sample
			if j := jobs[k]; j.path != "" && i%cmp.Or(j.every, 1) == 0 {
				s = b.once(j)
			}
			all[k] = append(all[k], s)
		}
	}
	for k, j := range jobs {
		if v := times(all[k]); len(v) > 0 {
			fmt.Fprintf(os.Stderr, "  %s %.60q: %d runs, %s to %s\n", j.path, j.args, len(v), duration(hundredth(v, 0)), duration(hundredth(v, 99)))
		}
	}
	return all
}

// shell is zksh, or zkCli, with these arguments.
func (b *bench) shell(path string, args ...string) job {
	return job{path: path, args: append([]string{"-server", b.addr}, args...)}
}

// peakMemory is the largest resident set of an ended process and its children, as
// Linux counts it.
func peakMemory(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
