// Package replay tests zksh with recordings of the real zkCli, which are in testdata/zkcli.
// It sends the recorded input to zksh and compares the output with the recorded one. The
// file differences.txt there declares all deliberate differences, and each needs a rule that
// explains it.
//
// Begin with TestRecordings. The function predict derives the expected output from a
// recording; rules lists the deliberate differences. The package contains only tests.
package replay

import (
	"errors"
	"flag"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

var update = flag.Bool("update", false, "write the table of differences anew; a difference without a rule stays an error")

// recordedAddr is the address of the server in the recordings.
const recordedAddr = "127.0.0.1:21811"

func TestRecordings(t *testing.T) {
	rows, err := readTable()
	zktest.Must(t, err)
	s := &suite{rows: rows}
	t.Run("batch", func(t *testing.T) {
		for _, b := range batches {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, b)
			})
		}
	})
	if *update {
		zktest.Must(t, writeTable(s.rows))
	}
}

// Each recording is in exactly one batch, and the table has no rows for other recordings.
func TestBatches(t *testing.T) {
	in := map[string]int{}
	for _, b := range batches {
		for _, name := range b.names(t) {
			in[name]++
		}
	}
	rows, err := readTable()
	zktest.Must(t, err)
	for name := range rows {
		if in[name] == 0 {
			t.Errorf("%s has a row for %s, which is no case", tableFile, name)
		}
	}
	for name, n := range in {
		if n != 1 {
			t.Errorf("%s is in %d batches", name, n)
		}
	}
	for _, dir := range []string{"", "v34/"} {
		files, err := filepath.Glob(filepath.Join(recordings, dir, "*.log"))
		zktest.Must(t, err)
		for _, f := range files {
			if name := dir + strings.TrimSuffix(filepath.Base(f), ".log"); in[name] == 0 {
				t.Errorf("%s is in no batch", name)
			}
		}
	}
}

func TestMain(m *testing.M) { zktest.MainWithProgram(m, "<version>") }

// A suite holds the table, which the batches share.
type suite struct {
	mu   sync.Mutex
	rows map[string]*row // by name of the recording; guarded by mu
}

// run replays the recordings of a batch against one server, in the recorded order.
func (s *suite) run(t *testing.T, b batch) {
	w := newBatchServer(t, b)
	for _, name := range b.names(t) {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			r, err := load(name)
			zktest.Must(t, err)
			w.prepare(t, name)
			s.mu.Lock()
			old := s.rows[name]
			s.mu.Unlock()
			if old == nil {
				old = &row{}
			}
			if *update {
				s.updateRow(t, w, r, old)
			} else {
				s.check(t, w, r, old)
			}
		})
	}
}

// check replays one recording and compares the output with the expectation.
func (s *suite) check(t *testing.T, w *batchServer, r *recording, declared *row) {
	want := expect(r, declared)
	for _, p := range want.problems {
		t.Error(p)
	}
	if !slices.Equal(want.rules, declared.rules) {
		t.Errorf("rules in use: %v; declared: %v", want.rules, declared.rules)
	}
	p := s.start(t, w, r)
	p.send(w.toCurrent(r.input))
	status := p.end(t)
	out, errs := want.streams()
	compare(t, "standard output", p.out.normal(), out)
	compare(t, "standard error", p.err.normal(), errs)
	if status != want.exitStatus() {
		t.Errorf("status %d, want %d (zkCli: %s)", status, want.exitStatus(), r.status)
	}
}

// compare fails the test if got differs from want, and shows the first lines that differ.
func compare(t *testing.T, what, got, want string) {
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	show := func(lines []string) string {
		return strings.Join(lines[max(0, min(i, len(lines))-2):min(len(lines), i+5)], "\n\t")
	}
	t.Errorf("%s differs in line %d\ngot:\n\t%s\nwant:\n\t%s", what, i+1, show(g), show(w))
}

// updateRow replays one recording, waiting for the answer to each line, and puts the
// differences from the prediction into the table.
func (s *suite) updateRow(t *testing.T, w *batchServer, r *recording, old *row) {
	p := s.start(t, w, r)
	got := make([]answer, len(r.steps))
	lines := strings.SplitAfter(r.input, "\n")
	var out, errs int   // lengths of the normalized outputs after the previous step
	var out0, errs0 int // lengths of the raw outputs after the previous step
	for i := range r.steps {
		if !r.oneShot() {
			p.send(w.toCurrent(lines[i]))
			predicted, _ := predict(r, i)
			p.settle(out0+errs0, len(predicted.out)+len(predicted.err) > 0)
			out0, errs0 = p.out.len(), p.err.len()
		}
		if i == len(r.steps)-1 {
			p.end(t)
		}
		o, e := p.out.normal(), p.err.normal()
		got[i] = answer{out: split(o[out:]), err: split(e[errs:])}
		got[i].status = statusFromError(got[i].err)
		out, errs = len(o), len(e)
	}
	fresh := &row{}
	var earlier []string
	for i, a := range got {
		predicted, _ := predict(r, i)
		if a.equal(predicted.normal()) {
			continue
		}
		d := difference{r: r, i: i, got: a, earlier: earlier}
		name := coveringRule(d)
		if was := old.step(i + 1); was != nil && whyNotCovered(was.rule, d) == "" {
			name = was.rule
		}
		if name == "?" {
			t.Errorf("%s line %d, %s: no rule explains\nzkCli: %q %q\nzksh:  %q %q", r.name, i+1, r.tableLine(i),
				predicted.out, predicted.err, a.out, a.err)
			continue
		}
		earlier = append(earlier, name)
		fresh.steps = append(fresh.steps, tableStep{number: i + 1, rule: name, line: r.tableLine(i), answer: a})
	}
	fresh.rules = expect(r, fresh).rules
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, r.name)
	if len(fresh.rules)+len(fresh.steps) > 0 {
		s.rows[r.name] = fresh
	}
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// statusFromError returns the exit status that belongs to an error message. updateRow needs
// it because the exit status of the program is only that of the first failure.
func statusFromError(errs []string) int {
	text := errorText(errs)
	switch {
	case text == "":
		return 0
	case strings.Contains(text, "unknown command "):
		return 127
	case strings.Contains(text, "(see: zksh help "), strings.Contains(text, ": unclosed "), strings.HasPrefix(text, "zksh: "):
		return 2
	case strings.Contains(text, "cannot connect: "), strings.Contains(text, "session expired"), strings.Contains(text, "ConnectionLoss"), strings.Contains(text, "AuthFailed"),
		strings.HasSuffix(text, "Not connected"):
		return 69
	}
	return 1
}

// A process is a running zksh.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err *stream
}

func (s *suite) start(t *testing.T, w *batchServer, r *recording) *process {
	args := make([]string, len(r.args))
	for i, a := range r.args {
		args[i] = w.toCurrent(a)
	}
	p := &process{cmd: exec.Command("zksh", args...), out: &stream{w: w}, err: &stream{w: w}}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	home := t.TempDir()
	zone := "UTC"
	if z := timeZones[r.name]; z != "" {
		zone = z
	}
	p.cmd.Dir = home
	p.cmd.Env = append(zktest.ProgramEnv(), "HOME="+home, "TZ="+zone, "LC_ALL=C")
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	zktest.Must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // fails if zksh has ended, which it has unless the test failed
	return p
}

// send writes to zksh's standard input. It ignores errors: they mean that zksh has ended,
// which its output and status show.
func (p *process) send(text string) { _, _ = io.WriteString(p.in, text) }

// end closes the input and returns the exit status.
func (p *process) end(t *testing.T) int {
	_ = p.in.Close() // fails if zksh has ended
	timer := time.AfterFunc(timeout, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// timeout is longer than any wait takes here, even on a busy machine.
const timeout = 60 * time.Second

// settle waits until zksh prints nothing more for 0.3 s. If likely is true, it first waits up
// to 3 s until there is more output than before bytes.
func (p *process) settle(before int, likely bool) {
	const tick, quiet, patience = 20 * time.Millisecond, 15, 150
	had, still := before, 0
	for total := 0; still < quiet || likely && had == before && total < patience; total++ {
		time.Sleep(tick)
		still++
		if n := p.out.len() + p.err.len(); n != had {
			had, still = n, 0
		}
	}
}
