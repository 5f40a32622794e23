//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/zksh/zksh/internal/zktest"
)

// report reports the median and the given percentile of the durations, in milliseconds.
func report(b *testing.B, name string, took []time.Duration, percent int) {
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "median-ms/"+name)
	b.ReportMetric(took[len(took)*percent/100].Seconds()*1e3, fmt.Sprintf("p%d-ms/%s", percent, name))
}

// benchServer starts a server that, as in production, writes each transaction to the disk.
func benchServer(b *testing.B) string {
	addr, _, stop, err := zktest.Serve(b.TempDir(), zktest.Heap(512), zktest.JavaProperty("zookeeper.forceSync", "yes"))
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(stop)
	return addr
}

// A benchPipe is a zksh process that reads lines from one pipe and writes answers to another.
type benchPipe struct {
	b   *testing.B
	in  io.Writer
	out *bufio.Reader
}

func openBenchPipe(b *testing.B, args ...string) *benchPipe {
	cmd := exec.Command("zksh", args...)
	cmd.Env = homeEnv(b.TempDir())
	in, err := cmd.StdinPipe()
	zktest.Must(b, err)
	out, err := cmd.StdoutPipe()
	zktest.Must(b, err)
	zktest.Must(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close() // makes zksh exit
		zktest.Check(b, cmd.Wait())
	})
	return &benchPipe{b, in, bufio.NewReader(out)}
}

func (p *benchPipe) write(lines string) {
	if _, err := io.WriteString(p.in, lines+"\n"); err != nil {
		p.b.Fatal(err)
	}
}

// ask sends lines and returns the time until their answer arrives. The answer is one line; it
// must equal want unless want is empty.
func (p *benchPipe) ask(lines, want string) time.Duration {
	start := time.Now()
	p.write(lines)
	p.answer(want)
	return time.Since(start)
}

func (p *benchPipe) answer(want string) {
	got, err := p.out.ReadString('\n')
	if err != nil || want != "" && got != want+"\n" {
		p.b.Errorf("want the line %q from zksh, got %q, %v", want, got, err)
	}
}

// BenchmarkLine measures a line sent to zksh as a coprocess, from the line to its answer. Goal:
// it takes at most 1.1 times as long as with -e, that is, equally long except for noise.
func BenchmarkLine(b *testing.B) {
	addr := benchServer(b)
	pipes := []*benchPipe{openBenchPipe(b, "-server", addr, "-e"), openBenchPipe(b, "-server", addr)}
	var took [2][]time.Duration
	for _, p := range pipes {
		p.ask("ls /", "") // waits until zksh is connected
	}
	for b.Loop() {
		for i, p := range pipes {
			took[i] = append(took[i], p.ask("ls /", ""))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	median := func(i int) float64 { return took[i][len(took[i])/2].Seconds() }
	b.ReportMetric(median(0)*1e3, "ms/line")
	b.ReportMetric(median(1)/median(0), "window/one")
}

// BenchmarkWait measures the time from the answer to a set until another zksh, which waits for
// that value, sees it. Goal: 95 of 100 within 5 ms.
func BenchmarkWait(b *testing.B) {
	addr := benchServer(b)
	waiter, changer := openBenchPipe(b, "-server", addr), openBenchPipe(b, "-server", addr)
	changer.ask("create /waited", "Created /waited")
	var late []time.Duration
	for i := 0; b.Loop(); i++ {
		waiter.write(fmt.Sprintf("wait --value %d /waited\necho %d", i, i))
		time.Sleep(10 * time.Millisecond) // the wait has begun
		seen := make(chan time.Time, 1)
		go func() {
			waiter.answer(fmt.Sprint(i))
			seen <- time.Now()
		}()
		changer.ask(fmt.Sprintf("set /waited %d\necho %d", i, i), fmt.Sprint(i))
		done := time.Now()
		late = append(late, max(0, (<-seen).Sub(done)))
	}
	report(b, "wait", late, 95)
}

// A keyboard is a zksh on a terminal that the benchmark types into. Its server is far away.
type keyboard struct {
	b    *testing.B
	cmd  *exec.Cmd
	tty  io.Writer
	seen chan []byte // chunks of output; closed when the output ends
}

// writeHistory writes a history of 100,000 lines for two clusters below a home folder.
func writeHistory(b *testing.B, home, place string) {
	var lines strings.Builder
	for i := range 100_000 {
		at := []string{place, "@prod"}[i%2]
		line := []string{"get -s /nested/node-%05d", "create /bench/node-%05d data", "deleteall /nested/node-%05d", "ls -R /flat/%05d"}[i/2%4]
		fmt.Fprintf(&lines, "#%d 0 %s\t"+line+"\n", 1764153000+i, at, i)
	}
	for name, text := range map[string]string{"state/zksh/history": lines.String(), "config/zksh/config": "history = 100000\n"} {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			b.Fatal(err)
		}
	}
}

// openKeyboard starts a zksh with 100,000 lines in its history. Its server answers after 500 ms and
// has a znode with 5,000 children.
func openKeyboard(b *testing.B) *keyboard {
	addr := benchServer(b)
	var script strings.Builder
	fmt.Fprintln(&script, "create /folder")
	for i := range 5000 {
		fmt.Fprintf(&script, "create /folder/node-%05d\n", i)
	}
	setup := exec.Command("zksh", "-server", addr, "-q")
	setup.Env, setup.Stdin = homeEnv(b.TempDir()), strings.NewReader(script.String())
	zktest.Must(b, setup.Run())
	proxy := zktest.NewProxy(b, addr)
	proxy.Delay(250 * time.Millisecond) // each way
	k := &keyboard{b: b, cmd: exec.Command("zksh", "-server", proxy.Addr(), "-q"), seen: make(chan []byte, 1000)}
	home := b.TempDir()
	writeHistory(b, home, proxy.Addr())
	k.cmd.Env = append(homeEnv(home), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(k.cmd, &pty.Winsize{Rows: 30, Cols: 100})
	zktest.Must(b, err)
	k.tty = tty
	go func() { // ends when the terminal closes
		defer close(k.seen)
		for {
			buf := make([]byte, 4096)
			n, err := tty.Read(buf)
			if n > 0 {
				k.seen <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		k.write("\x04")
		for range k.seen { // until zksh exits
		}
		zktest.Check(b, k.cmd.Wait())
		_ = tty.Close()
	})
	k.until("(CONNECTED) 0] ")
	return k
}

func (k *keyboard) write(keys string) {
	if _, err := io.WriteString(k.tty, keys); err != nil {
		k.b.Fatal(err)
	}
}

// until waits until zksh has shown the text. It ignores colors and suggestions.
func (k *keyboard) until(text string) {
	var all strings.Builder
	late := time.After(zktest.Patience)
	for !strings.Contains(string(withoutHints([]byte(all.String()))), text) {
		select {
		case p, ok := <-k.seen:
			if all.Write(p); !ok {
				k.b.Fatalf("zksh exited; its output was %q", all.String())
			}
		case <-late:
			k.b.Fatalf("cannot find %q in the output %q", text, all.String())
		}
	}
}

// lines types each line, then clears it instead of running it. It returns how long zksh took to
// show each key.
func (k *keyboard) lines(lines []string) (took []time.Duration) {
	const pause = 60 * time.Millisecond // between keys, as a fast typist
	for _, line := range lines {
		for i, r := range line {
			for len(k.seen) > 0 { // drop output that the key does not cause
				<-k.seen
			}
			start := time.Now()
			k.write(string(r))
			k.until("] " + line[:i] + string(r) + "\x1b[J")
			took = append(took, time.Since(start))
			time.Sleep(pause + rand.N(pause)) // a random part, to stay out of step with the editor's own timer
		}
		k.write("\x15") // Ctrl-U empties the line
		k.until("] \x1b[J")
	}
	return took
}

// BenchmarkKeys measures the time from a key press until the line is drawn with that key, while
// paths in the line are completed, and zksh suggests lines of a long history. Goals: the median and
// 99 of 100 within 20 ms, also below a znode with 5,000 children; a paste of 200 lines within
// 500 ms; at most 2 % of a core when idle.
func BenchmarkKeys(b *testing.B) {
	k := openKeyboard(b)
	var keys, below []time.Duration
	for b.Loop() {
		keys = append(keys, k.lines([]string{
			"create /bench/some-node some-data", "get -s /nested/node-00001/node-00021", "ls -R /flat", "setAcl /one world:anyone:cdrwa",
			"set /zookeeper/config 你好世界", "deleteall /nested/node-00002", "redo 1", "help create",
		})...)
	}
	report(b, "key", keys, 99)
	k.write("cd /folder\r")
	k.until(" /folder 1] ")
	for range 4 { // enough keys for the slowest 1 %
		below = append(below, k.lines([]string{
			"get node-01234", "create node-new 你好世界", "ls -R ../folder", "set -v 1 node-04321 some-data", "cd node-00042",
		})...)
	}
	report(b, "key-below", below, 99)
	time.Sleep(2 * time.Second) // until the last answers have come
	const idle = 10 * time.Second
	before := processorTime(b, k.cmd.Process.Pid)
	time.Sleep(idle)
	b.ReportMetric(100*float64(processorTime(b, k.cmd.Process.Pid)-before)/float64(idle), "%-idle")
	start := time.Now()
	k.write("\x1b[200~" + strings.Repeat("echo pasted\r", 200) + "\x1b[201~")
	k.until(" /folder 201] ") // the line before was cd
	b.ReportMetric(time.Since(start).Seconds()*1e3, "ms/paste")
}

// BenchmarkTab measures the time from Tab in another shell until zksh proposes a znode's name,
// or until zksh gives up because no server answers. Goal: 200 ms. On a busy machine zksh can
// give up before the answer.
func BenchmarkTab(b *testing.B) {
	for name, addr := range map[string]string{"answered": benchServer(b), "silent": zktest.Silent(b)} {
		b.Run(name, func(b *testing.B) {
			names := 0
			for b.Loop() {
				cmd := exec.Command("zksh", "__complete", "zsh")
				cmd.Env = append(homeEnv(b.TempDir()), "COMP_LINE=zksh -server "+addr+" get /zoo")
				out, err := cmd.Output()
				zktest.Must(b, err)
				names += strings.Count(string(out), "/zookeeper")
			}
			b.ReportMetric(float64(names)/float64(b.N), "names/op")
		})
	}
}

// processorTime returns the processor time that a process has used, or 0 where there is no
// /proc.
func processorTime(b *testing.B, pid int) time.Duration {
	fields, err := statFields(pid)
	if err != nil {
		b.Log(err)
		return 0
	}
	var ticks time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		zktest.Must(b, err)
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
}

// statFields returns the fields of /proc/PID/stat from the third on: the state, the parent and so on.
func statFields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])), nil // the second field, the name, may contain spaces
}
