//go:build unix

// Bench runs commands and scripts of zksh by turns with zkCli, or with another version of zksh, on
// one real server. It prints a table of times, ratios and peak memory.
//
//	go run ./internal/bench [-against COMMIT] [-quick] [-only REGEXP] [-rounds N]
//
// The function measurements lists what it runs. The benchmarks of single packages are beside their
// code, and run with go test -bench.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

const (
	zkCli = "/usr/share/zookeeper/bin/zkCli.sh" // path in Debian's package
	limit = 10 * time.Minute                    // of a run; much longer than any takes
)

// A measurement is a row of the table: a command, or a script on standard input.
type measurement struct {
	name   string
	rounds int
	zkCli  int // zkCli runs only in every n-th round, because it is slow; 0: it has no such command
	tls    bool
	before string // command of zksh before each run
	after  string // command of zksh after each run
	args   []string
	first  string // text before the repeated lines
	line   string // line that the script repeats, with its number in place of #
	times  int    // number of times that the script repeats the line
}

// measurements returns the rows for a tree /tree with the given number of znodes, and for scripts
// with the given numbers of lines. dump is a file to write.
func measurements(znodes, long, short int, dump string) []measurement {
	of := fmt.Sprintf(", %d znodes", znodes)
	creates := func(name string, change func(*measurement)) measurement {
		m := measurement{
			name: fmt.Sprintf("%d piped creates", short) + name, rounds: 15,
			before: "create /piped", after: "deleteall /piped", line: "create /piped/node-# data", times: short,
		}
		change(&m)
		return m
	}
	return []measurement{
		{name: "`--version`", rounds: 31, args: []string{"--version"}},
		{name: "`ls /`", rounds: 31, zkCli: 6, args: []string{"ls", "/"}},
		{name: "`ls /`, TLS", rounds: 31, tls: true, args: []string{"ls", "/"}},
		creates("", func(m *measurement) { m.zkCli = 5 }),
		creates(", TLS", func(m *measurement) { m.tls = true }),
		creates(", `-e`", func(m *measurement) { m.args = []string{"-e"} }),
		creates(", under a lock", func(m *measurement) { m.first = "lock /lock\n" }),
		{name: fmt.Sprintf("%d piped gets", long), rounds: 7, line: "get /tree", times: long},
		{name: fmt.Sprintf("%d piped sets", long/4), rounds: 7, line: "set /tree data", times: long / 4},
		{name: "`ls -R`" + of, rounds: 9, zkCli: 9, args: []string{"ls", "-R", "/tree"}},
		{name: "`export -R`" + of, rounds: 5, args: []string{"export", "-R", "/tree", dump}},
		{name: "`cp -R`" + of, rounds: 5, after: "deleteall /copy", args: []string{"cp", "-R", "/tree", "/copy"}},
		{name: "`deleteall`" + of, rounds: 5, zkCli: 5, before: "cp -R /tree /copy", args: []string{"deleteall", "/copy"}},
		{name: "`lock` with a command", rounds: 31, args: []string{"lock", "/lock", "--", "true"}},
		{name: fmt.Sprintf("%d locks and unlocks", short/2), rounds: 7, line: "lock /lock\nunlock /lock", times: short / 2},
	}
}

// A bench is one run of this program.
type bench struct {
	ctx           context.Context
	dir           string   // directory for temporary files
	zksh, other   string   // paths of zksh and of the program to compare with
	plain, secure []string // options for the server without and with TLS
}

func main() {
	against := flag.String("against", "", "compare with zksh as it was at this `commit`, not with zkCli")
	quick := flag.Bool("quick", false, "run everything once and with small trees; the figures mean nothing")
	only := flag.String("only", "", "measure only the rows whose names match this `regexp`")
	rounds := flag.Int("rounds", 0, "run each row this often; 0: as often as the table of measurements says")
	flag.Parse()
	// Linux never reports a lower peak for a child than this process had when it started the child.
	debug.SetGCPercent(10)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *against, *quick, *only, *rounds)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, against string, quick bool, only string, rounds int) (err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	b := &bench{ctx: ctx}
	if b.dir, err = os.MkdirTemp("", "zksh-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.build(against); err != nil {
		return err
	}
	stop, err := b.serve()
	if err != nil {
		return err
	}
	defer stop()
	znodes, long, short := 100_000, 100_000, 1000
	if quick {
		znodes, long, short = 2000, 400, 100
	}
	if err := b.makeTree(znodes); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg") // an error means that this system has no such file
	fmt.Printf("zksh beside %s on %s, %d cores, %s, load %.4s at the start; a server on loopback, without fsync\n\n",
		filepath.Base(b.other), time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), load)
	fmt.Println("| what | zksh | other | time | processor time | memory | other |")
	fmt.Println("| --- | --: | --: | --: | --: | --: | --: |")
	for _, m := range measurements(znodes, long, short, filepath.Join(b.dir, "dump")) {
		switch {
		case !wanted.MatchString(m.name):
			continue
		case rounds > 0:
			m.rounds = rounds
		case quick:
			m.rounds = 1
		}
		if err := b.measure(m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// build builds zksh, and the program to compare it with.
func (b *bench) build(against string) error {
	b.zksh, b.other = filepath.Join(b.dir, "zksh"), zkCli
	build := `cd "$(git rev-parse --show-toplevel)" && go build -trimpath -o "$0/zksh" .`
	if against != "" {
		b.other = filepath.Join(b.dir, "zksh-"+strings.ReplaceAll(against, "/", "-"))
		build += ` && mkdir "$0/source" && git archive "$1" | tar -xf - -C "$0/source" &&
			cd "$0/source" && go build -trimpath -o "$2" .`
	}
	cmd := zktest.CommandGroup(b.ctx, "sh", "-c", build, b.dir, against, b.other)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build zksh: %w", err)
	}
	return nil
}

// serve starts the server, with a port for TLS. stop ends it.
func (b *bench) serve() (stop func(), err error) {
	authority, err := zktest.NewAuthority(b.dir, "ca")
	if err != nil {
		return nil, err
	}
	identity, err := authority.Issue(zktest.Cert{Name: "127.0.0.1"}) // of the server and the client
	if err != nil {
		return nil, err
	}
	plain, secure, stop, err := zktest.Serve(b.dir, zktest.Heap(1024), zktest.Secure(identity.File, authority.File))
	b.plain = []string{"-server", plain}
	b.secure = []string{"-server", secure, "--cacert", authority.File, "--cert", identity.File}
	return stop, err
}

// script returns the path of a file with the text first and n lines. A script in a file does not
// count as memory of this process.
func (b *bench) script(first string, n int, line func(i int) string) (path string, err error) {
	f, err := os.CreateTemp(b.dir, "script-")
	if err != nil {
		return "", err
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, first)
	for i := range n {
		fmt.Fprintln(w, line(i))
	}
	return f.Name(), errors.Join(w.Flush(), f.Close())
}

// makeTree creates /tree and its descendants. Znode number 123 is /tree/1/2/3.
func (b *bench) makeTree(znodes int) error {
	script, err := b.script("create /tree data\n", znodes-1, func(i int) string {
		return "create /tree/" + strings.Join(strings.Split(fmt.Sprint(i+1), ""), "/") + " data"
	})
	if err == nil {
		_, err = b.run(b.zksh, script, b.plain...)
	}
	return err
}

// measure runs a measurement by turns with both programs, and prints its row.
func (b *bench) measure(m measurement) error {
	input, err := b.script(m.first, m.times, func(i int) string { return strings.ReplaceAll(m.line, "#", fmt.Sprint(i)) })
	if err != nil {
		return err
	}
	var ours, theirs []sample
	for round := range m.rounds {
		alone := b.other == zkCli && (m.zkCli == 0 || round%m.zkCli > 0)
		var pair [2]sample
		for turn := range pair {
			which := (turn + round) % 2
			if which == 1 && alone {
				continue
			}
			if pair[which], err = b.between(m, []string{b.zksh, b.other}[which], input); err != nil {
				return err
			}
		}
		ours, theirs = append(ours, pair[0]), append(theirs, pair[1])
	}
	fmt.Println("|", m.name,
		"|", median("%.1f ms", ours, milliseconds, nil), "|", median("%.1f ms", theirs, milliseconds, nil),
		"|", median("%.2f ×", ours, milliseconds, theirs), "|", median("%.2f ×", ours, processor, theirs),
		"|", median("%.1f MiB", ours, memory, nil), "|", median("%.1f MiB", theirs, memory, nil), "|")
	return nil
}

// A sample contains the times and the memory of one run of a program, by the constants below. It is
// zero if the program did not run.
type sample [3]float64

const (
	milliseconds = iota
	processor    // processor time in milliseconds
	memory       // peak memory in MiB
)

// median returns the median of a field of samples or, if below is not nil, of its ratios to that of
// below. It ignores rounds in which a program did not run. If there is no other, it returns a dash.
func median(format string, samples []sample, field int, below []sample) string {
	var all []float64
	for i, s := range samples {
		v := s[field]
		if below != nil {
			v /= below[i][field]
		}
		if v > 0 && !math.IsInf(v, 1) {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	return fmt.Sprintf(format, (all[(len(all)-1)/2]+all[len(all)/2])/2)
}

// between runs a measurement once with the program at path, between its two commands of zksh.
func (b *bench) between(m measurement, path, input string) (s sample, err error) {
	aside := func(command string) {
		if command != "" && err == nil {
			_, err = b.run(b.zksh, os.DevNull, append(b.plain, strings.Fields(command)...)...)
		}
	}
	options := map[bool][]string{false: b.plain, true: b.secure}[m.tls]
	if aside(m.before); err == nil {
		s, err = b.run(path, input, append(options, m.args...)...)
	}
	aside(m.after)
	return s, err
}

// run measures a program whose standard input is a file. The program must succeed.
func (b *bench) run(path, input string, args ...string) (s sample, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	f, err := os.Open(input)
	if err != nil {
		return s, err
	}
	defer f.Close()
	var errs bytes.Buffer
	cmd := zktest.CommandGroup(ctx, path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8"} // not the user's configuration
	cmd.Stdin, cmd.Stderr = f, &errs
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return s, fmt.Errorf("%s %q: %w\n%s", path, args, err, errs.Bytes())
	}
	state := cmd.ProcessState
	s[milliseconds] = time.Since(start).Seconds() * 1e3
	s[processor] = (state.UserTime() + state.SystemTime()).Seconds() * 1e3
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		s[memory] = float64(u.Maxrss) / 1024
	}
	return s, nil
}
