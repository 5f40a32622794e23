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

// runLimit is the time after which a program is killed. It is much longer than any run should take.
const runLimit = 10 * time.Minute

// A job is a program to run and measure. Its output must contain an expected text.
type job struct {
	path          string // path of the program, or empty if it is not installed
	args          []string
	env           string // additional environment variable, or empty
	input         string // text for standard input
	expect        string // text that the program's output must contain
	times         int    // number of times that the output must contain it
	every         int    // run the job only in every n-th round; 0 means every round
	before, after func() // called before and after each run; may be nil
}

// A sample contains the measurements from one run of a job. All fields are 0 if the job was
// skipped.
type sample struct {
	first  time.Duration // time until the expected text first appeared in the output
	total  time.Duration // time until the program exited
	memory int64         // peak memory in bytes, or 0 if the system does not report it

	// processor is the processor time of the program, including child processes that it waited for.
	processor time.Duration
}

// A matchCounter is a writer that counts how often a text occurs in a program's output. It also
// records the time of the first occurrence.
type matchCounter struct {
	text  string
	start time.Time
	first time.Duration
	count int
	// tail contains the last bytes of the output. Error messages quote it, and Write uses it to
	// find a text that is split between two writes.
	tail []byte
}

// Write counts the occurrences of the text in p. It never returns an error.
func (w *matchCounter) Write(p []byte) (int, error) {
	const kept = 500
	if w.text != "" {
		// The text may be split between the previous write and this one. Copy only the bytes around
		// the boundary, and search them.
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

// environment returns the environment variables for a program that is measured, including those in
// more. They keep the program from using the user's configuration and history.
func (b *bench) environment(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8", "USER=bench"}, more...)
}

// run runs the job's program once, measures it and checks its output.
func (b *bench) run(j job) sample {
	ctx, cancel := context.WithTimeout(b.ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.path, j.args...)
	cmd.Env = b.environment(j.env)
	// zkCli.sh starts Java as a child process. A process group lets Cancel kill both.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if j.input != "" {
		cmd.Stdin = strings.NewReader(j.input)
	}
	out, in, err := os.Pipe()
	check(err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = in, in
	// The initial newline lets j.expect match at the beginning of the first line.
	w := &matchCounter{text: j.expect, tail: []byte{'\n'}, start: time.Now()}
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

// runOnce calls j.before, runs the job j once, and calls j.after.
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

// byTurns runs the jobs in turn, each once per round, and reverses their order after each round.
// The result contains, for each job, one sample per round.
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

// shell returns a job that runs the program at path, which is zksh or zkCli, with the given
// arguments. The program connects to the server at b.addr.
func (b *bench) shell(path string, args ...string) job {
	return job{path: path, args: append([]string{"-server", b.addr}, args...)}
}

// peakMemory returns the peak memory of a process that has ended, in bytes. On Linux, this is the
// largest resident set of the process or any of its children.
func peakMemory(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
