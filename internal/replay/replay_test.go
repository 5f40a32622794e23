// Package replay runs what was once typed into the real zkCli through zksh, and
// compares. It holds tests only.
package replay

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
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

// recorded is what the recordings call the server.
const recorded = "127.0.0.1:21811"

func TestRecordings(t *testing.T) {
	rows, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
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
		if err := writeTable(s.rows); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBatches sees to it that no recording is left out, and that the table knows
// no others.
func TestBatches(t *testing.T) {
	in := map[string]int{}
	for _, b := range batches {
		for _, name := range b.names(t) {
			in[name]++
		}
	}
	rows, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := dir + strings.TrimSuffix(filepath.Base(f), ".log"); in[name] == 0 {
				t.Errorf("%s is in no batch", name)
			}
		}
	}
}

func TestMain(m *testing.M) { zktest.MainWithProgram(m, "<version>") }

// suite is what the batches share.
type suite struct {
	mu   sync.Mutex
	rows map[string]*row
}

// run replays the cases of a batch against one server, in the recorded order.
func (s *suite) run(t *testing.T, b batch) {
	w := newWorld(t, b)
	for _, name := range b.names(t) {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			r, err := load(name)
			if err != nil {
				t.Fatal(err)
			}
			w.prepare(t, name)
			s.mu.Lock()
			old := s.rows[name]
			s.mu.Unlock()
			if old == nil {
				old = &row{}
			}
			if *update {
				s.record(t, w, r, old)
			} else {
				s.check(t, w, r, old)
			}
		})
	}
}

// check replays one case and compares.
func (s *suite) check(t *testing.T, w *world, r *recording, declared *row) {
	want := expect(r, declared)
	for _, p := range want.problems {
		t.Error(p)
	}
	if !slices.Equal(want.rules, declared.rules) {
		t.Errorf("rules in use: %v; declared: %v", want.rules, declared.rules)
	}
	p := s.start(t, w, r)
	if !r.eventful() {
		p.send(w.live(r.input))
	} else {
		for i, step := range r.steps {
			out, errs := want.streams(i)
			for _, remark := range step.before {
				p.await(t, out, errs)
				w.act(t, p, remark)
			}
			p.send(w.live(step.line + "\n"))
		}
	}
	status := p.end(t)
	out, errs := want.streams(len(want.answers))
	compare(t, "standard output", p.out.normal(), out)
	compare(t, "standard error", p.err.normal(), errs)
	if status != want.status() {
		t.Errorf("status %d, want %d (zkCli: %s)", status, want.status(), r.status)
	}
}

// compare shows the first lines that differ.
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

// record finds out what zksh answers to each line by waiting after each, and
// puts the differences into the table.
func (s *suite) record(t *testing.T, w *world, r *recording, old *row) {
	p := s.start(t, w, r)
	got := make([]answer, len(r.steps))
	lines := strings.SplitAfter(r.input, "\n")
	var out, errs int   // how much was seen before
	var out0, errs0 int // the same before normalising
	for i, step := range r.steps {
		for _, remark := range step.before {
			w.act(t, p, remark)
		}
		if !r.oneShot() {
			p.send(w.live(lines[i]))
			predicted, _ := predict(r, i)
			p.settle(out0+errs0, len(predicted.out)+len(predicted.err) > 0)
			out0, errs0 = p.out.len(), p.err.len()
		}
		if i == len(r.steps)-1 {
			p.end(t)
		}
		o, e := p.out.normal(), p.err.normal()
		got[i] = answer{out: split(o[out:]), err: split(e[errs:])}
		got[i].status = statusOf(r, got[i].err)
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
		name := guess(d)
		if was := old.step(i + 1); was != nil && explain(was.rule, d) == "" {
			name = was.rule
		}
		if name == "?" {
			t.Errorf("%s line %d, %s: no rule explains\nzkCli: %q %q\nzksh:  %q %q", r.name, i+1, r.shown(i),
				predicted.out, predicted.err, a.out, a.err)
			continue
		}
		earlier = append(earlier, name)
		fresh.steps = append(fresh.steps, tableStep{number: i + 1, rule: name, line: r.shown(i), answer: a})
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

// statusOf is the status behind an error message. Only record needs it: the
// program's own status tells but of the first failure.
func statusOf(r *recording, errs []string) int {
	text := complaints(errs)
	switch {
	case text == "":
		return 0
	case strings.Contains(text, "unknown command "):
		return 127
	case strings.Contains(text, "(usage: "), strings.Contains(text, ": unclosed "), strings.HasPrefix(text, "zksh: "):
		return 2
	case strings.Contains(text, "cannot connect: "), strings.Contains(text, "session expired"), strings.Contains(text, "ConnectionLoss"), strings.Contains(text, "AuthFailed"),
		strings.HasSuffix(text, "Not connected"):
		return 69
	}
	return 1
}

// process is a running zksh.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err *stream
}

func (s *suite) start(t *testing.T, w *world, r *recording) *process {
	args := make([]string, len(r.args))
	for i, a := range r.args {
		args[i] = w.live(a)
	}
	p := &process{cmd: exec.Command("zksh", args...), out: &stream{w: w}, err: &stream{w: w}}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	home := t.TempDir()
	zone := "UTC"
	if z := zones[r.name]; z != "" {
		zone = z
	}
	p.cmd.Dir = home
	p.cmd.Env = append(zktest.ProgramEnv(), "HOME="+home, "TZ="+zone, "LC_ALL=C")
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended unless the test failed
	return p
}

// send fails only when zksh has ended, which its output and status show.
func (p *process) send(text string) { _, _ = io.WriteString(p.in, text) }

// end closes the input and returns the exit status.
func (p *process) end(t *testing.T) int {
	_ = p.in.Close() // closed already if zksh has ended
	timer := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// limit is more than anything takes here, even on a busy machine.
const limit = 60 * time.Second

// await waits until the answers so far have come.
func (p *process) await(t *testing.T, out, errs string) {
	told := func() bool { return p.out.normal() == out && p.err.normal() == errs }
	for end := time.Now().Add(limit); !told(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for\n%s%s\nhave\n%s%s", out, errs, p.out.normal(), p.err.normal())
		}
	}
}

// sockets are those that zksh has open.
func (p *process) sockets(t *testing.T) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, f := range files {
		// One that is closed meanwhile has no target.
		if target, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && strings.HasPrefix(target, "socket:") {
			open = append(open, target)
		}
	}
	return open
}

// settle waits until something is printed, if that is likely, and then until
// nothing more is.
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
