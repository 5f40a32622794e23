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

// runLimit is the time after which a run is killed. No run should take nearly as long.
const runLimit = 10 * time.Minute

// A job is a program to run and measure, together with its expected output.
type job struct {
	path          string // path of the program; empty if it is not installed
	args          []string
	env, input    string // an additional environment variable, and the standard input
	expect        string // text that must occur in the output
	times         int    // number of times that expect must occur
	every         int    // run the job only in every n-th round of byTurns; 0 means in every round
	before, after func() // functions that runOnce calls before and after each run; nil if not needed
}

// A sample is the measurement of one run of a job. All fields are 0 if the job was skipped in a
// round.
type sample struct {
	first  time.Duration // time from the start until the expected text appeared in the output
	total  time.Duration // time from the start until the program exited
	memory int64         // peak memory, in bytes; 0 if the system does not report it

	processor time.Duration // processor time of the program and of the processes that it waited for
}

// A matchCounter is a writer that counts the occurrences of a text in a program's output and
// records the time of the first one.
type matchCounter struct {
	text  string
	start time.Time
	first time.Duration
	count int
	tail  []byte // last bytes of the output, for error messages and for a text that spans two writes
}

// Write counts the occurrences of the text in p. It never fails.
func (w *matchCounter) Write(p []byte) (int, error) {
	const kept = 500
	if w.text != "" {
		// Search for matches across the seam between two writes separately, so that only
		// the bytes around the seam must be copied.
		seam := append(bytes.Clone(w.tail[max(0, len(w.tail)-len(w.text)+1):]), p[:min(len(p), len(w.text)-1)]...)
		found := bytes.Count(seam, []byte(w.text)) + bytes.Count(p, []byte(w.text))
		if found > 0 && w.count == 0 {
			w.first = time.Since(w.start)
		}
		w.count += found
	}
	w.tail = append(w.tail, p[max(0, len(p)-kept):]...)
	w.tail = w.tail[max(0, len(w.tail)-kept):]
	return len(p), nil
}

// environment returns the environment variables for a program that is measured. With them, the
// program does not use the configuration and the history of the user.
func (b *bench) environment(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8", "USER=bench"}, more...)
}

// run runs the program of a job and checks its output.
func (b *bench) run(j job) sample {
	ctx, cancel := context.WithTimeout(b.ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.path, j.args...)
	cmd.Env = b.environment(j.env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // zkCli.sh starts Java, which Cancel must kill too
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if j.input != "" {
		cmd.Stdin = strings.NewReader(j.input)
	}
	out, in, err := os.Pipe()
	check(err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = in, in
	w := &matchCounter{text: j.expect, tail: []byte{'\n'}, start: time.Now()} // the newline lets expect match at the start of a line
	err = cmd.Start()
	in.Close() // the child process has its own copy
	check(err)
	_, copyErr := io.CopyBuffer(w, struct{ io.Reader }{out}, make([]byte, 64<<10))
	err = errors.Join(copyErr, cmd.Wait())
	s := sample{first: w.first, total: time.Since(w.start), memory: peakMemory(cmd.ProcessState),
		processor: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if err == nil && w.count != j.times {
		err = fmt.Errorf("want %q %d times in the output, got it %d times", j.expect, j.times, w.count)
	}
	if err != nil {
		check(fmt.Errorf("%s %q: %w; the output ended with %q", j.path, j.args, err, w.tail))
	}
	return s
}

// runOnce calls a job's function before, runs the job, and calls its function after.
func (b *bench) runOnce(j job) sample {
	if j.before != nil {
		j.before()
	}
	s := b.run(j)
	if j.after != nil {
		j.after()
	}
	return s
}

// byTurns runs the jobs in turn: each once per round, in reverse order in every other round. It
// returns the samples of each job, one per round.
func (b *bench) byTurns(rounds int, jobs ...job) [][]sample {
	all := make([][]sample, len(jobs))
	for i := range rounds {
		for k := range jobs {
			if i%2 == 1 {
				k = len(jobs) - 1 - k
			}
			var s sample
			if j := jobs[k]; j.path != "" && i%cmp.Or(j.every, 1) == 0 {
				s = b.runOnce(j)
			}
			all[k] = append(all[k], s)
		}
	}
	for k, j := range jobs {
		if v := times(all[k]); len(v) > 0 {
			fmt.Fprintf(os.Stderr, "  %s %.60q: %d runs, %s to %s\n", j.path, j.args, len(v), duration(percentile(v, 0)), duration(percentile(v, 99)))
		}
	}
	return all
}

// shell returns a job that runs zksh or zkCli, whose path is given, with the current server and
// the given arguments.
func (b *bench) shell(path string, args ...string) job {
	return job{path: path, args: append([]string{"-server", b.addr}, args...)}
}

// peakMemory returns the peak memory of a process that has ended, in bytes: the largest resident
// set that Linux reports for the process or any of its children.
func peakMemory(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
