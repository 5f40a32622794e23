package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

const heapMB = 1024 // of the server

// row is a task with what came out.
type row struct {
	task
	zksh, bare, cli []sample
	cliFailed       bool // zkCli.sh without the task's JVM flag
}

// figure is one thing that was measured, beside what it was to be.
type figure struct {
	what, got string
	goal      string // empty: there is none
	met       bool
}

// table has a row for each figure; measured is the heading of what came out.
func table(measured string, figures ...figure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| what | %s | goal | met |\n| --- | --: | --: | --- |\n", measured)
	for _, f := range figures {
		met := "**no**"
		switch {
		case f.goal == "":
			f.goal, met = "–", "–"
		case f.met:
			met = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.what, f.got, f.goal, met)
	}
	return b.String()
}

// atMost is the figure of a time that has a goal.
func atMost(what string, got, goal time.Duration) figure {
	return figure{what, duration(got), "≤ " + duration(goal), got <= goal}
}

func total(s sample) time.Duration { return s.total }

// firstResult and untilExit split a task that has two rows; the memory is told once.
func (r row) firstResult() row {
	r.what += ", first output"
	for _, all := range []*[]sample{&r.zksh, &r.cli} {
		*all = slices.Clone(*all)
		for i, s := range *all {
			(*all)[i].total = s.first
		}
	}
	return r
}

func (r row) untilExit() row {
	r.what += ", until exit"
	r.goal = goals{}
	return r
}

func median[T int64 | float64 | time.Duration](v []T) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func each[T any](all []sample, of func(sample) T) []T {
	var v []T
	for _, s := range all {
		v = append(v, of(s))
	}
	return v
}

func medianTime(all []sample) time.Duration { return median(each(all, total)) }

func peak(all []sample) int64 {
	var m int64
	for _, s := range all {
		m = max(m, s.memory)
	}
	return m
}

// bareRatio is the median of zksh's time over the loop's, pair by pair.
func (r row) bareRatio() float64 {
	var v []float64
	for i, s := range r.bare {
		v = append(v, float64(r.zksh[i].total)/float64(s.total))
	}
	return median(v)
}

// log tells how much the runs differ.
func (r row) log(w io.Writer) {
	for _, p := range []struct {
		name string
		runs []sample
	}{{"zksh", r.zksh}, {"bare loop", r.bare}, {"zkCli.sh", r.cli}} {
		if len(p.runs) > 0 {
			v := slices.Sorted(slices.Values(each(p.runs, total)))
			fmt.Fprintf(w, "  %-9s %2d runs: %s to %s, median %s, peak memory %s\n", p.name, len(v),
				duration(v[0]), duration(v[len(v)-1]), duration(median(v)), mebibytes(peak(p.runs)))
		}
	}
}

// cells are a row of the table.
func (r row) cells() []string {
	const none = "–"
	c := []string{
		r.what, duration(medianTime(r.zksh)), duration(slices.Min(each(r.zksh, total))), none, none, none, none,
		mebibytes(peak(r.zksh)), none, none, none,
	}
	var missed []string
	judge := func(at int, goal string, ok bool, name string) {
		c[at] = goal
		if !ok {
			missed = append(missed, name)
		}
	}
	g := r.goal
	if g.time > 0 {
		judge(3, "≤ "+duration(g.time), medianTime(r.zksh) <= g.time, "time")
	}
	if len(r.bare) > 0 {
		c[1] += fmt.Sprintf(" = %.2f × the bare loop's %s", r.bareRatio(), duration(medianTime(r.bare)))
		judge(3, fmt.Sprintf("≤ %.1f ×", g.bare), r.bareRatio() <= g.bare, "time")
	}
	if len(r.cli) > 0 {
		faster := float64(medianTime(r.cli)) / float64(medianTime(r.zksh))
		c[4], c[5], c[9] = duration(medianTime(r.cli)), fmt.Sprintf("%.0f ×", faster), mebibytes(peak(r.cli))
		if r.cliFailed {
			c[4] = "fails; " + c[4] + " with `" + r.jvmFlag + "`"
		}
		if g.faster > 0 {
			judge(6, fmt.Sprintf("≥ %.0f ×", g.faster), faster >= g.faster, "ratio")
		}
	}
	if g.memory > 0 {
		judge(8, "≤ "+mebibytes(g.memory), peak(r.zksh) <= g.memory, "memory")
	}
	switch {
	case len(missed) > 0:
		c[10] = "no: " + strings.Join(missed, ", ")
	case g != goals{}:
		c[10] = "yes"
	}
	return c
}

// report is the table with its heading and what it was measured on.
func report(rows []row, machine string, quick bool) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n")
	b.WriteString("This table compares zksh with `zkCli.sh` and with a minimal loop that uses go-zookeeper (the bare loop). All three were\n" +
		"measured in one run against the same server. To repeat the measurements, run `make bench` or\n" +
		"`go run ./internal/bench -o testdata/BENCHMARKS.md`.\n\n")
	if quick {
		b.WriteString("This was a smoke test (`-quick`), so the figures are not meaningful.\n\n")
	}
	lines := [][]string{
		{"what", "zksh", "fastest", "goal", "zkCli.sh", "faster", "goal", "peak memory", "goal", "zkCli.sh's", "met"},
		{"---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "---"},
	}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	for _, l := range lines {
		b.WriteString("| " + strings.Join(l, " | ") + " |\n")
	}
	b.WriteString("\nAll times are medians, except in the column of zksh's fastest run. Unless the row says otherwise, they are measured from the\n" +
		"start of the process to its exit. The ratio to the bare loop is the median over alternating pairs of runs. Peak memory is the\n" +
		"largest resident set of all runs. Everything ran several times, except that zkCli.sh listed and deleted the large trees only once.\n" +
		"In nested trees, each znode has " + fmt.Sprint(fan) + " children; in flat trees, all znodes have the same parent. The znodes contain no data.\n\n")
	b.WriteString(machine)
	return b.String()
}

// describe says what is measured on, before it starts.
func describe(addr string) (string, error) {
	answer, err := zktest.FourLetter(addr, "srvr", zktest.Patience)
	if err != nil {
		return "", err
	}
	find := func(file, pattern string) string {
		text, _ := os.ReadFile(file) // not every system has it
		if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
			return string(m[1])
		}
		return "unknown"
	}
	version := "unknown"
	if m := regexp.MustCompile(`version: ([0-9.]+)`).FindStringSubmatch(answer); m != nil {
		version = m[1]
	}
	lines := []string{
		"date: " + time.Now().Format(time.DateOnly),
		fmt.Sprintf("machine: %s, %d cores, load average %s at the start", find("/proc/cpuinfo", `model name\s*: (.*)`),
			runtime.NumCPU(), find("/proc/loadavg", `^(\S+)`)),
		fmt.Sprintf("system: %s, %s/%s, %s", find("/etc/os-release", `PRETTY_NAME="?([^"\n]*)`), runtime.GOOS,
			runtime.GOARCH, runtime.Version()),
		fmt.Sprintf("server: ZooKeeper %s on loopback, with Java's default compiler and collector, heap %d MiB, "+
			"warmed up, without fsync (forceSync=no)", version, heapMB),
	}
	return "- " + strings.Join(lines, "\n- ") + "\n", nil
}

func duration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func mebibytes(n int64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
