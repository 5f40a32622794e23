package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/zksh/zksh/internal/app"
)

// Goals of the shell at the keyboard.
const (
	keyGoal   = 20 * time.Millisecond
	idleGoal  = 0.02 // of a core
	tabGoal   = 200 * time.Millisecond
	pasteGoal = 500 * time.Millisecond
)

// What is measured at the keyboard, and how.
const (
	serverDelay = 500 * time.Millisecond // until an answer
	keyPause    = 60 * time.Millisecond  // between keys, as a fast typist makes, and up to as much again
	typings     = 4                      // of each line, so that the slowest in a hundred is not the slowest of all
	idleTime    = 10 * time.Second
	tabs        = 21  // in another shell
	pasted      = 200 // lines
)

// typing is what a person types; paths are completed meanwhile.
var typing = []string{
	"create /bench/some-node some-data", "get -s /nested/node-00001/node-00021", "ls -R /flat", "setAcl /one world:anyone:cdrwa",
	"set /zookeeper/config 你好世界", "deleteall /nested/node-00002", "redo 1", "help create",
}

// typingBelow is what he types below a folder with so many children, where relative
// paths begin.
var typingBelow = []string{
	"get node-01234", "create node-new 你好世界", "ls -R ../folder", "set -v 1 node-04321 some-data", "cd node-00042",
}

const (
	folder   = "/folder"
	children = 5000
)

// keyboard is what was measured at the keyboard.
type keyboard struct {
	keys  []time.Duration // from a key to the line drawn with it
	below []time.Duration // the same below the folder
	idle  float64         // of a core
	paste time.Duration   // from the first key of a paste to the prompt after its last line

	tabs, vain time.Duration // until another shell knows a znode's name; until it is told nothing, as no server answers
}

// measureTabs completes a line of another shell.
func (b *bench) measureTabs(server string, t task) (time.Duration, error) {
	p := program{path: b.zksh, args: []string{app.CompleteWord, "zsh"}, env: "COMP_LINE=zksh -server " + server + " get /zoo"}
	var all []time.Duration
	for range tabs {
		s, err := b.run(p, t)
		if err != nil {
			return 0, err
		}
		all = append(all, s.total)
	}
	return median(all), nil
}

// measureKeys types into zksh, whose server answers late, and then leaves it alone.
func (b *bench) measureKeys(ctx context.Context, quick bool) (k keyboard, err error) {
	var plant strings.Builder
	fmt.Fprintln(&plant, "create", folder)
	for i := range children {
		fmt.Fprintf(&plant, "create %s/node-%05d\n", folder, i)
	}
	planting := exec.CommandContext(ctx, b.zksh, "-server", b.addr, "-q")
	planting.Env, planting.Stdin = b.environment(), strings.NewReader(plant.String())
	if err := planting.Run(); err != nil {
		return k, fmt.Errorf("%s: %w", folder, err)
	}
	relay, err := newRelay(b.addr, serverDelay)
	if err != nil {
		return k, err
	}
	defer relay.close()
	t, err := openTyped(ctx, b, relay.addr())
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	lines, below, idle := slices.Repeat(typing, typings), slices.Repeat(typingBelow, typings), idleTime
	if quick {
		lines, below, idle = typing[:2], typingBelow[:1], time.Second
	}
	if k.keys, err = t.lines(lines); err != nil {
		return k, err
	}
	if _, err := io.WriteString(t.tty, "cd "+folder+"\r"); err != nil {
		return k, err
	}
	if err := t.until(" " + folder + " 1] "); err != nil {
		return k, err
	}
	if k.below, err = t.lines(below); err != nil {
		return k, err
	}
	time.Sleep(serverDelay * 4) // until the last answers are there
	before, err := cpuTime(t.cmd.Process.Pid)
	if err != nil {
		return k, err
	}
	time.Sleep(idle)
	after, err := cpuTime(t.cmd.Process.Pid)
	if err != nil {
		return k, err
	}
	k.idle = float64(after-before) / float64(idle)
	if k.paste, err = t.paste(); err != nil {
		return k, err
	}
	if k.tabs, err = b.measureTabs(b.addr, task{expect: "/zookeeper", times: 1}); err != nil {
		return k, err
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return k, err
	}
	defer silent.Close()
	k.vain, err = b.measureTabs(silent.Addr().String(), task{})
	return k, err
}

// paste pastes lines that need no server, and waits for the prompt after the last one.
func (t *typed) paste() (time.Duration, error) {
	begun := time.Now()
	if _, err := io.WriteString(t.tty, "\x1b[200~"+strings.Repeat("echo pasted\r", pasted)+"\x1b[201~"); err != nil {
		return 0, err
	}
	err := t.until(fmt.Sprintf(" %s %d] ", folder, 1+pasted)) // the line before was cd
	return time.Since(begun), err
}

// lines types lines, and empties each instead of ending it.
func (t *typed) lines(lines []string) (took []time.Duration, err error) {
	for _, line := range lines {
		for i, r := range line {
			one, err := t.key(string(r), line[:i]+string(r))
			if err != nil {
				return nil, err
			}
			took = append(took, one)
			// Not in step with the editor's own clock.
			time.Sleep(keyPause + rand.N(keyPause))
		}
		if _, err := t.key("\x15", ""); err != nil { // Ctrl-U empties the line
			return nil, err
		}
	}
	return took, nil
}

// text is the section of the report.
func (k keyboard) text() string {
	all, below := slices.Sorted(slices.Values(k.keys)), slices.Sorted(slices.Values(k.below))
	hundredth := func(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }
	return "\n## At the keyboard\n\n" +
		fmt.Sprintf("The terminal has 100 columns, and the server answers after %s. There are %d keys, %s to %s apart, and %d more after `cd` to a znode with %d children.\n\n",
			duration(serverDelay), len(all), duration(keyPause), duration(2*keyPause), len(below), children) +
		table("zksh", atMost("from a key press to the line on the screen, median", median(all), keyGoal),
			atMost("the slowest key of a hundred", hundredth(all), keyGoal),
			figure{what: "the slowest key", got: duration(all[len(all)-1])},
			atMost("the same after `cd`, median", median(below), keyGoal),
			atMost("after `cd`, the slowest key of a hundred", hundredth(below), keyGoal),
			figure{what: "after `cd`, the slowest key", got: duration(below[len(below)-1])},
			atMost(fmt.Sprintf("a paste of %d lines", pasted), k.paste, pasteGoal),
			atMost("from Tab in another shell to a znode's name, median", k.tabs, tabGoal),
			atMost("the same, until it gives up because no server answers", k.vain, tabGoal),
			figure{"idle: processor time, of one core", fmt.Sprintf("%.2f %%", 100*k.idle), fmt.Sprintf("≤ %.0f %%", 100*idleGoal), k.idle <= idleGoal})
}

// typed is zksh on a terminal that is typed into.
type typed struct {
	cmd  *exec.Cmd
	tty  io.ReadWriteCloser
	seen chan []byte // what it shows; closed at its end
}

func openTyped(ctx context.Context, b *bench, server string) (*typed, error) {
	cmd := exec.CommandContext(ctx, b.zksh, "-server", server, "-q")
	cmd.Env = append(b.environment(), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		return nil, err
	}
	t := &typed{cmd: cmd, tty: tty, seen: make(chan []byte, 1000)}
	go func() { // ends with the terminal
		defer close(t.seen)
		for {
			buf := make([]byte, 4096)
			n, err := tty.Read(buf)
			if n > 0 {
				t.seen <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return t, t.until("(CONNECTED) 0] ")
}

// key types a key and says how long it took to show the line that is expected.
func (t *typed) key(key, line string) (time.Duration, error) {
	for len(t.seen) > 0 { // what came by itself
		<-t.seen
	}
	start := time.Now()
	if _, err := io.WriteString(t.tty, key); err != nil {
		return 0, err
	}
	err := t.until("] " + line + "\x1b[J")
	return time.Since(start), err
}

// until waits for a text to be shown.
func (t *typed) until(text string) error {
	var all bytes.Buffer
	late := time.After(10 * time.Second)
	for !strings.Contains(all.String(), text) {
		select {
		case b, ok := <-t.seen:
			if !ok {
				return fmt.Errorf("zksh exited; its output was %q", all.String())
			}
			all.Write(b)
		case <-late:
			return fmt.Errorf("cannot find %q in the output %q", text, all.String())
		}
	}
	return nil
}

func (t *typed) close() error {
	_, err := io.WriteString(t.tty, "\x04")
	for range t.seen { // until it has ended
	}
	return errors.Join(err, t.cmd.Wait(), t.tty.Close())
}

// relay passes on what goes to a server and back, late.
type relay struct {
	listener net.Listener
	target   string
	delay    time.Duration

	mu    sync.Mutex
	conns []net.Conn
	work  sync.WaitGroup
}

func newRelay(target string, delay time.Duration) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, target: target, delay: delay}
	r.work.Go(func() { // until close
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, client, server)
			r.mu.Unlock()
			r.work.Go(func() { r.pass(server, client, 0) })
			r.work.Go(func() { r.pass(client, server, delay) })
		}
	})
	return r, nil
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// pass copies until one side closes.
func (r *relay) pass(to, from net.Conn, delay time.Duration) {
	defer to.Close()
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 10_000)
	go func() { // ends with the connection
		defer close(pieces)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				pieces <- piece{buf[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	from.Close()
	for range pieces { // what nobody takes any more
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}
