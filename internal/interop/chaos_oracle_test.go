//go:build linux

package interop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// oracle sees who is in the critical section of one lock, without a word from a
// ZooKeeper: what runs there writes lines into a log. See testdata/witness.sh.
//
// A lock is handed on in the order of the numbers in the names of its znodes. So a
// line with an older number after one with a newer number is of somebody who goes
// on though the lock is another's. If that is a zksh, it is an overlap. A lock of
// the kernel's, which the commands under zksh's locks take, finds out those, too,
// that leave no such line.
//
// Curator and kazoo believe every server, also one that is cut off from the leader,
// and have no lease: their overlaps are theirs, and are counted only. When one is
// still there as a zksh begins, its number is the older one, so the line that is
// wrong is not of the zksh. When a zksh is still there as one of them begins, it is.
type oracle struct {
	dir  string
	path string // of the lock
}

func newOracle(t *testing.T, path string) *oracle { return &oracle{t.TempDir(), path} }

// mode is how a section excludes others.
type mode string

const (
	exclusive mode = "x"
	shared    mode = "s"
	foreign   mode = "f" // exclusive, of a client that has no lease
)

// section is one stay of a client in the critical section, counted by client.
type section struct {
	name string
	n    int
}

// sight is a line of the log.
type sight struct {
	section
	mode   mode
	number int64
	token  string // of zksh's
	what   string // begin, beat, taken, term, end
	at     float64
}

// say writes a line from the test's own process.
func (o *oracle) say(s sight) error {
	f, err := os.OpenFile(o.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	uptime, err := os.ReadFile("/proc/uptime")
	if err == nil {
		now, _, _ := strings.Cut(string(uptime), " ")
		_, err = fmt.Fprintln(f, s.name, s.n, s.mode, s.number, s.token, s.what, now)
	}
	return err
}

func (o *oracle) log() string { return filepath.Join(o.dir, "log") }

// sights are the lines of the log so far.
func (o *oracle) sights(t *testing.T) (all []sight) {
	text, err := os.ReadFile(o.log())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var s sight
		var number string // with zeros in front, which is no octal
		_, err := fmt.Sscan(line, &s.name, &s.n, &s.mode, &number, &s.token, &s.what, &s.at)
		if err == nil {
			s.number, err = strconv.ParseInt(number, 10, 64)
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// saw reports whether something is in the log.
func (o *oracle) saw(in section, what string) bool {
	text, err := os.ReadFile(o.log())
	if err != nil {
		return false // nobody was there yet
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, fmt.Sprint(in.name, " ", in.n, " ")) && strings.Contains(line, " "+what+" ") {
			return true
		}
	}
	return false
}

// inside is the client that was in the critical section just now, if any was.
func (o *oracle) inside() string {
	text, err := os.ReadFile(o.log())
	if err != nil {
		return "" // nobody was yet
	}
	last := text[bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n')+1:]
	name, rest, _ := strings.Cut(string(last), " ")
	if strings.Contains(rest, " end ") {
		return ""
	}
	return name
}

// verdict is what the oracle has seen.
type verdict struct {
	overlaps []string // of zksh's
	late     map[section]bool
	last     map[section]sight
}

func (o *oracle) judge(t *testing.T) verdict {
	v := verdict{late: map[section]bool{}, last: map[section]sight{}}
	var newest, newestExclusive, newestOurs sight
	wrong := func(s, newer sight) {
		if v.late[s.section] {
			return
		}
		v.late[s.section] = true
		if s.mode != foreign {
			v.overlaps = append(v.overlaps, fmt.Sprintf("%s %d (%s, number %d): %s at %.2f, after %s at %.2f of %s %d (%s, number %d)",
				s.name, s.n, s.mode, s.number, s.what, s.at, newer.what, newer.at, newer.name, newer.n, newer.mode, newer.number))
		}
	}
	for _, s := range o.sights(t) {
		ahead := newest
		switch s.mode {
		case shared:
			ahead = newestExclusive
		case foreign: // Curator's and kazoo's do not exclude each other
			ahead = newestOurs
		}
		if s.number < ahead.number || s.what == "taken" {
			wrong(s, ahead)
		}
		if s.number > newest.number {
			newest = s
		}
		if s.mode != shared && s.number > newestExclusive.number {
			newestExclusive = s
		}
		if s.mode != foreign && s.number > newestOurs.number {
			if token(t, s) <= token(t, newestOurs) {
				v.overlaps = append(v.overlaps, fmt.Sprintf("%s %d has token %s after %s", s.name, s.n, s.token, newestOurs.token))
			}
			newestOurs = s
		}
		v.last[s.section] = s
	}
	return v
}

func token(t *testing.T, s sight) int64 {
	if s.token == "" {
		return 0 // nobody's
	}
	n, err := strconv.ParseInt(s.token, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// began and ended are what a client can have done in a section.
func (v verdict) began(s section) bool { _, ok := v.last[s]; return ok }
func (v verdict) ended(s section) bool { return v.last[s].what == "end" }

// markName is the variable of the environment that tells whose a process is.
const markName = "CHAOS_CLIENT"

// survivors are the processes that still run of commands under locks of a client,
// or of any if who is empty, by what the environment of each says.
func survivors(t *testing.T, who string) (left []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		dir := filepath.Dir(file)
		env, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, or is not ours
		}
		text := "\x00" + string(env)
		if strings.Contains(text, "\x00ZK_LOCK_NODE=") && strings.Contains(text, "\x00"+markName+"="+who+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			if !zktest.Runs(pid) {
				continue // it has been killed
			}
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may end just now
			left = append(left, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return left
}

// The oracle sees clients that do not exclude each other: who ignores the lock, who
// believes in a znode that is gone, what survives its zksh, and who tells a lie.
func TestOracle(t *testing.T) {
	t.Parallel()
	zktest.Need(t, exec.Command("flock", "--version").Run() == nil, "util-linux")
	t.Run("Overlap", func(t *testing.T) {
		o := newOracle(t, "/l")
		first := o.start(t, "first", exclusive, 4)
		o.waitFor(t, "first", "beat")
		second := o.start(t, "second", exclusive, 5)
		o.waitFor(t, "second", "beat")
		o.wantEnds(t, first, second)
		if v := o.judge(t); !v.late[section{"first", 1}] || !v.late[section{"second", 1}] {
			t.Errorf("two that were there together are not seen: %q", v.overlaps)
		}
		by, err := os.ReadFile(filepath.Join(o.dir, "taken"))
		if err != nil || !strings.Contains(string(by), "witness.sh") || !strings.Contains(string(by), "beat") {
			t.Errorf("who was there is not told: %q, %v", by, err)
		}
	})
	t.Run("Stale", func(t *testing.T) {
		o := newOracle(t, "/l")
		o.wantEnds(t, o.start(t, "second", exclusive, 5))
		o.wantEnds(t, o.start(t, "first", exclusive, 4))
		if v := o.judge(t); !v.late[section{"first", 1}] || v.late[section{"second", 1}] {
			t.Errorf("who comes with an older number is not seen: %q", v.overlaps)
		}
	})
	t.Run("Shared", func(t *testing.T) {
		o := newOracle(t, "/l")
		readers := []*exec.Cmd{o.start(t, "second", shared, 5), o.start(t, "first", shared, 4)}
		o.waitFor(t, "first", "beat")
		o.waitFor(t, "second", "beat")
		if v := o.judge(t); len(v.overlaps) > 0 {
			t.Errorf("readers exclude each other: %q", v.overlaps)
		}
		writer := o.start(t, "writer", exclusive, 6)
		o.waitFor(t, "writer", "beat")
		o.wantEnds(t, append(readers, writer)...)
		if v := o.judge(t); !v.late[section{"writer", 1}] || !v.late[section{"first", 1}] {
			t.Errorf("a writer among readers is not seen: %q", v.overlaps)
		}
	})
	t.Run("Foreign", func(t *testing.T) {
		o := newOracle(t, "/l")
		theirs := sight{section{"theirs", 1}, foreign, 4, "-", "begin", 0}
		for _, s := range []sight{theirs, {section{"ours", 1}, exclusive, 5, "0x5", "begin", 0}, theirs} {
			if err := o.say(s); err != nil {
				t.Fatal(err)
			}
		}
		if v := o.judge(t); len(v.overlaps) > 0 || !v.late[theirs.section] {
			t.Errorf("late: %v, and blamed: %q", v.late, v.overlaps)
		}
		theirs.number = 6
		for _, s := range []sight{theirs, {section{"ours", 1}, exclusive, 5, "0x5", "beat", 0}} {
			if err := o.say(s); err != nil {
				t.Fatal(err)
			}
		}
		if v := o.judge(t); len(v.overlaps) != 1 || !v.late[section{"ours", 1}] {
			t.Errorf("a zksh that stays too long is not seen: %q", v.overlaps)
		}
	})
	t.Run("Survivor", func(t *testing.T) {
		o := newOracle(t, "/l")
		cmd := o.start(t, "killed", exclusive, 4)
		o.waitFor(t, "killed", "beat")
		_ = cmd.Process.Kill() // not its child, which is in a session of its own
		_ = cmd.Wait()
		left := survivors(t, o.dir+"/killed")
		if len(left) == 0 {
			t.Error("what survives is not seen")
		}
		for _, l := range left {
			pid, err := strconv.Atoi(strings.Fields(l)[0])
			if err != nil {
				t.Fatal(err)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // a sleep may have ended
		}
		zktest.Eventually(t, "all are gone", func() bool { return len(survivors(t, o.dir+"/killed")) == 0 })
	})
}

// start runs a witness with a znode that no server has, which stays until wantEnds.
func (o *oracle) start(t *testing.T, name string, m mode, number int) *exec.Cmd {
	cmd := exec.Command("sh", o.witness(t, section{name, 1}, m, 100*time.Millisecond, 0, false)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("ZK_LOCK_NODE=%s/x-lock-%010d", o.path, number), fmt.Sprintf("ZK_LOCK_TOKEN=%#x", number),
		markName+"="+o.dir+"/"+name)
	if err := os.WriteFile(o.stay(name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// witness are the arguments of sh.
func (o *oracle) witness(t *testing.T, s section, m mode, during time.Duration, status int, stubborn bool) []string {
	script, err := filepath.Abs("testdata/witness.sh")
	if err != nil {
		t.Error(err)
	}
	term := "heed"
	if stubborn {
		term = "ignore"
	}
	return []string{script, o.dir, s.name, strconv.Itoa(s.n), string(m), fmt.Sprint(during.Seconds()), strconv.Itoa(status), term}
}

func (o *oracle) waitFor(t *testing.T, name, what string) {
	zktest.Eventually(t, name+" "+what, func() bool { return o.saw(section{name, 1}, what) })
}

// stay is a file that keeps a client in its section.
func (o *oracle) stay(name string) string { return filepath.Join(o.dir, "stay-"+name) }

func (o *oracle) wantEnds(t *testing.T, cmds ...*exec.Cmd) {
	names, err := filepath.Glob(o.stay("*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}
