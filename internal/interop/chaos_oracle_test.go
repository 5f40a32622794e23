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

// An oracle records which clients are in the critical section of a lock, without asking
// ZooKeeper: the code in the section writes entries to a log. See testdata/witness.sh.
//
// Clients get a lock in the order of the numbers in the names of its znodes. So an entry with
// a lower number after one with a higher number is from a client that has continued after it
// lost the lock. If that client is zksh, the oracle reports an overlap. In addition, commands
// under zksh's locks take a lock of the kernel, which finds overlaps that leave no such entry.
//
// Curator and kazoo have no lease and trust every server, even one that is cut off from the
// leader. Their overlaps are only counted. If such a client is still in its section when zksh
// begins, the client has the lower number, so its entry is the wrong one. In the opposite
// case it is the entry of zksh.
type oracle struct {
	dir  string
	path string // path of the lock in ZooKeeper
}

func newOracle(t *testing.T, path string) *oracle { return &oracle{t.TempDir(), path} }

// A mode says which other sections a section excludes.
type mode string

const (
	exclusive mode = "x"
	shared    mode = "s"
	foreign   mode = "f" // exclusive, of a client without a lease (Curator, kazoo)
)

// A section is one stay of a client in the critical section, numbered per client.
type section struct {
	name  string
	index int
}

// A logEntry is a line of the log.
type logEntry struct {
	section
	mode   mode
	number int64
	token  string // fencing token of zksh's lock; "-" for other clients
	what   string // begin, beat, taken, term, end
	at     float64
}

// record writes an entry for a section in the process of the test.
func (o *oracle) record(s logEntry) error {
	f, err := os.OpenFile(o.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	uptime, err := os.ReadFile("/proc/uptime")
	if err == nil {
		now, _, _ := strings.Cut(string(uptime), " ")
		_, err = fmt.Fprintln(f, s.name, s.index, s.mode, s.number, s.token, s.what, now)
	}
	return err
}

func (o *oracle) log() string { return filepath.Join(o.dir, "log") }

// readLog returns the entries of the log so far.
func (o *oracle) readLog(t *testing.T) (all []logEntry) {
	text, err := os.ReadFile(o.log())
	zktest.Must(t, err)
	for line := range strings.Lines(string(text)) {
		var s logEntry
		var number string // decimal with leading zeros, which Sscan would read as octal
		_, err := fmt.Sscan(line, &s.name, &s.index, &s.mode, &number, &s.token, &s.what, &s.at)
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

// saw reports whether the log contains an entry of a section with the given what.
func (o *oracle) saw(in section, what string) bool {
	text, err := os.ReadFile(o.log())
	if err != nil {
		return false // no entries yet
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, fmt.Sprint(in.name, " ", in.index, " ")) && strings.Contains(line, " "+what+" ") {
			return true
		}
	}
	return false
}

// lastInside returns the client of the last entry, or "" if that is the end of a section.
func (o *oracle) lastInside() string {
	text, err := os.ReadFile(o.log())
	if err != nil {
		return "" // no entries yet
	}
	last := text[bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n')+1:]
	name, rest, _ := strings.Cut(string(last), " ")
	if strings.Contains(rest, " end ") {
		return ""
	}
	return name
}

// A verdict is the result of checking the log.
type verdict struct {
	overlaps []string // overlaps caused by zksh
	late     map[section]bool
	last     map[section]logEntry
}

func (o *oracle) judge(t *testing.T) verdict {
	v := verdict{late: map[section]bool{}, last: map[section]logEntry{}}
	var newest, newestExclusive, newestOurs logEntry
	wrong := func(s, newer logEntry) {
		if v.late[s.section] {
			return
		}
		v.late[s.section] = true
		if s.mode != foreign {
			v.overlaps = append(v.overlaps, fmt.Sprintf("%s %d (%s, number %d): %s at %.2f, after %s at %.2f of %s %d (%s, number %d)",
				s.name, s.index, s.mode, s.number, s.what, s.at, newer.what, newer.at, newer.name, newer.index, newer.mode, newer.number))
		}
	}
	for _, s := range o.readLog(t) {
		ahead := newest
		switch s.mode {
		case shared:
			ahead = newestExclusive
		case foreign: // locks of Curator and of kazoo do not exclude each other
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
				v.overlaps = append(v.overlaps, fmt.Sprintf("%s %d has token %s after %s", s.name, s.index, s.token, newestOurs.token))
			}
			newestOurs = s
		}
		v.last[s.section] = s
	}
	return v
}

func token(t *testing.T, s logEntry) int64 {
	if s.token == "" {
		return 0 // the zero logEntry
	}
	n, err := strconv.ParseInt(s.token, 0, 64)
	zktest.Must(t, err)
	return n
}

// began reports whether a section has begun, ended whether it has ended normally.
func (v verdict) began(s section) bool { _, ok := v.last[s]; return ok }
func (v verdict) ended(s section) bool { return v.last[s].what == "end" }

// markName is an environment variable that identifies the client of a process.
const markName = "CHAOS_CLIENT"

// survivors returns the running processes of commands under locks of a client. It identifies
// them by their environment, where who is the value of markName.
func survivors(t *testing.T, who string) (left []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	zktest.Must(t, err)
	for _, file := range all {
		dir := filepath.Dir(file)
		env, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended, or belongs to another user
		}
		text := "\x00" + string(env)
		if strings.Contains(text, "\x00ZK_LOCK_NODE=") && strings.Contains(text, "\x00"+markName+"="+who+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(dir))
			zktest.Must(t, err)
			if !zktest.Runs(pid) {
				continue // the process has been killed
			}
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // fails if the process has just ended
			left = append(left, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return left
}

// The oracle finds clients that do not exclude each other: clients that ignore the lock or
// continue without their znode. survivors finds commands that outlive their zksh.
func TestOracle(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "flock", "util-linux")
	t.Run("Overlap", func(t *testing.T) {
		o := newOracle(t, "/l")
		first := o.start(t, "first", exclusive, 4)
		o.waitFor(t, "first")
		second := o.start(t, "second", exclusive, 5)
		o.waitFor(t, "second")
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
		o.waitFor(t, "first")
		o.waitFor(t, "second")
		if v := o.judge(t); len(v.overlaps) > 0 {
			t.Errorf("readers exclude each other: %q", v.overlaps)
		}
		writer := o.start(t, "writer", exclusive, 6)
		o.waitFor(t, "writer")
		o.wantEnds(t, append(readers, writer)...)
		if v := o.judge(t); !v.late[section{"writer", 1}] || !v.late[section{"first", 1}] {
			t.Errorf("a writer among readers is not seen: %q", v.overlaps)
		}
	})
	t.Run("Foreign", func(t *testing.T) {
		o := newOracle(t, "/l")
		theirs := logEntry{section{"theirs", 1}, foreign, 4, "-", "begin", 0}
		for _, s := range []logEntry{theirs, {section{"ours", 1}, exclusive, 5, "0x5", "begin", 0}, theirs} {
			zktest.Must(t, o.record(s))
		}
		if v := o.judge(t); len(v.overlaps) > 0 || !v.late[theirs.section] {
			t.Errorf("late: %v, and blamed: %q", v.late, v.overlaps)
		}
		theirs.number = 6
		for _, s := range []logEntry{theirs, {section{"ours", 1}, exclusive, 5, "0x5", "beat", 0}} {
			zktest.Must(t, o.record(s))
		}
		if v := o.judge(t); len(v.overlaps) != 1 || !v.late[section{"ours", 1}] {
			t.Errorf("a zksh that stays too long is not seen: %q", v.overlaps)
		}
	})
	t.Run("Survivor", func(t *testing.T) {
		o := newOracle(t, "/l")
		cmd := o.start(t, "killed", exclusive, 4)
		o.waitFor(t, "killed")
		_ = cmd.Process.Kill() // does not kill its child
		_ = cmd.Wait()
		left := survivors(t, o.dir+"/killed")
		if len(left) == 0 {
			t.Error("what survives is not seen")
		}
		for _, l := range left {
			pid, err := strconv.Atoi(strings.Fields(l)[0])
			zktest.Must(t, err)
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails if the process has ended
		}
		zktest.Eventually(t, "all are gone", func() bool { return len(survivors(t, o.dir+"/killed")) == 0 })
	})
}

// start runs witness.sh with the name of a znode that does not exist. It runs until wantEnds.
func (o *oracle) start(t *testing.T, name string, m mode, number int) *exec.Cmd {
	cmd := exec.Command("sh", o.witnessArgs(t, section{name, 1}, m, 100*time.Millisecond, 0, false)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("ZK_LOCK_NODE=%s/x-lock-%010d", o.path, number), fmt.Sprintf("ZK_LOCK_TOKEN=%#x", number),
		markName+"="+o.dir+"/"+name)
	zktest.Must(t, os.WriteFile(o.holdFile(name), nil, 0o600))
	zktest.Must(t, cmd.Start())
	return cmd
}

// witnessArgs returns the arguments of sh that run witness.sh.
func (o *oracle) witnessArgs(t *testing.T, s section, m mode, during time.Duration, status int, stubborn bool) []string {
	script, err := filepath.Abs("testdata/witness.sh")
	zktest.Check(t, err)
	term := "heed"
	if stubborn {
		term = "ignore"
	}
	return []string{script, o.dir, s.name, strconv.Itoa(s.index), string(m), fmt.Sprint(during.Seconds()), strconv.Itoa(status), term}
}

// waitFor waits until the client with this name is in its section.
func (o *oracle) waitFor(t *testing.T, name string) {
	zktest.Eventually(t, name+" beats", func() bool { return o.saw(section{name, 1}, "beat") })
}

// holdFile returns the path of a file that keeps a client in its section while it exists.
func (o *oracle) holdFile(name string) string { return filepath.Join(o.dir, "stay-"+name) }

func (o *oracle) wantEnds(t *testing.T, cmds ...*exec.Cmd) {
	names, err := filepath.Glob(o.holdFile("*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	zktest.Must(t, err)
	for _, cmd := range cmds {
		zktest.Check(t, cmd.Wait())
	}
}
