package undo

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/zksh/zksh/commands"
)

// A Log is the user's undo log, together with settings of the program that uses it.
type Log struct {
	Dir   string // directory of the log, or empty if there is no place for it
	NoDir error  // why Dir is empty, although the user wants operations to be saved; nil if Dir is not empty
	By    Origin // program that uses the log
	// Queue reports whether a znode with this name belongs to a lock queue. Undo never restores
	// such znodes, because the sessions that created them have ended.
	Queue func(name string) bool
	// Again is the shell command that undoes operations of this program, split into words. It is
	// empty at the prompt of zksh, where the user can type undo.
	Again []string
	// Ending is the address of the sandbox that ends with this program, or empty if there is none.
	// A single command saves nothing that it destroys there, because nobody could undo it.
	Ending string
}

// Recorder returns a Recorder that records operations in this log.
func (l Log) Recorder() *Recorder {
	var place backend = &store{l.Dir}
	if l.NoDir != nil {
		place = noStore{l.NoDir}
	}
	return &Recorder{backend: place, inQueue: l.Queue, log: l}
}

var _ backend = noStore{}

// noStore is the backend of a Log that has no directory. It can save nothing, so the user is asked
// before anything is destroyed.
type noStore struct{ why error }

// begin implements backend. It returns the reason why there is no directory.
func (s noStore) begin() (draft, error) { return nil, s.why }

// update implements backend. It is never called, because nothing is saved.
func (s noStore) update(*entry) error { return s.why }

// remove implements backend. It is never called, because nothing is saved.
func (s noStore) remove(int) error { return s.why }

// forImport implements backend.
func (noStore) forImport() bool { return false }

// Origin identifies the program that performed an operation. Without a number, undo undoes
// operations whose Origin has the same ID as its own.
type Origin struct {
	ID       string     `json:"id"` // the same for all operations of a shell, or of all single commands in one terminal session
	Kind     originKind `json:"kind"`
	Script   string     `json:"script,omitempty"` // file that the command source was running
	PID      int        `json:"pid"`
	Host     string     `json:"host,omitempty"`
	Terminal string     `json:"terminal,omitempty"`
}

// originKind is the kind of a program: a shell with a prompt, or a program that runs a single
// command or a script.
type originKind string

const (
	prompt      originKind = "prompt"
	commandLine originKind = "command"
)

// AtPrompt returns the Origin of a shell with a prompt. Each shell has an ID of its own. terminal
// is the name of the shell's terminal, or empty.
func AtPrompt(terminal string) Origin { return newOrigin(prompt, rand.Text(), terminal) }

// OnCommandLine returns the Origin of a program that runs a single command or a script. All such
// programs in one terminal session have the same ID. If session is empty, each program has an ID of
// its own.
func OnCommandLine(session, terminal string) Origin {
	by := newOrigin(commandLine, rand.Text(), terminal)
	if session != "" {
		sum := sha256.Sum256([]byte(by.Host + " " + session))
		by.ID = hex.EncodeToString(sum[:12])
	}
	return by
}

func newOrigin(k originKind, id, terminal string) Origin {
	host, _ := os.Hostname() // if this fails, undo -l shows no host name
	return Origin{ID: id, Kind: k, PID: os.Getpid(), Host: host, Terminal: terminal}
}

// same reports whether two Origins have the same ID. It returns false if b has no ID.
func (b *Origin) same(other Origin) bool { return b != nil && b.ID != "" && b.ID == other.ID }

// onOtherHost reports whether b is known to be on a different machine from here, which is the
// Origin of this program.
func (b *Origin) onOtherHost(here Origin) bool { return b.Host != "" && b.Host != here.Host }

// cell returns a short description of the program b for a table cell, such as its terminal. For
// this program, whose Origin is here, it returns "here".
func (b *Origin) cell(here Origin) string {
	switch {
	case b == nil:
		return "-"
	case b.same(here):
		return "here"
	}
	text := b.Terminal
	switch {
	case b.Script != "":
		text = filepath.Base(b.Script)
	case b.Kind == commandLine:
		text = string(commandLine)
	case text == "":
		text = "pid " + strconv.Itoa(b.PID)
	}
	if b.onOtherHost(here) {
		text += "@" + b.Host
	}
	return text
}

// words returns a phrase about the program b for use in a sentence, such as "by a command". The
// phrase names the host if b ran on a different machine from here, the Origin of this program.
func (b *Origin) words(here Origin) string {
	if b == nil {
		return "by an older version of zksh"
	}
	text := "by a command"
	if b.Kind == prompt {
		text = "by the shell"
	}
	if b.Terminal != "" {
		text += " in " + b.Terminal
	}
	if b.onOtherHost(here) {
		text += " on " + b.Host
	}
	if b.Kind == prompt {
		text += fmt.Sprintf(" (pid %d)", b.PID)
	}
	if b.Script != "" {
		text += ", from " + b.Script
	}
	return text
}

// facts returns the JSON value that describes the program b, or nil if b is unknown. The value
// includes whether b has the same ID as here, the Origin of this program.
func (b *Origin) facts(here Origin) any {
	if b == nil {
		return nil
	}
	return struct {
		*Origin
		Here bool `json:"here"`
	}{b, b.same(here)}
}

// pick returns the operation to undo. If args contains a number, that is the operation with this
// number. Otherwise, it is the latest operation of this program's Origin. If that one cannot be undone,
// pick asks the user before it returns an earlier one. It never returns an operation of another Origin
// without its number, because its user may still need it.
func (l Log) pick(ctx context.Context, env *commands.Env, args []string, dry bool) (*entry, error) {
	s := &store{l.Dir}
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return nil, commands.Misuse("%q is not an operation number; to list the operations, run: undo -l", args[0])
		}
		return s.entry(n)
	}
	all, err := s.list()
	if err != nil {
		return nil, err
	}
	passed, far, latest := "", "", (*entry)(nil)
	if r, is := env.Recorder.(*Recorder); is && r.unsaved != "" {
		passed = fmt.Sprintf("the latest change (%s) was not saved", r.unsaved)
	}
	for _, e := range all {
		own, elsewhere := e.By.same(l.By), e.checkServers(env) != nil
		if elsewhere && far == "" && s.isOpen(e) {
			far = fmt.Sprintf(" here (operation %d was done on %s)", e.N, e.location())
		}
		switch {
		case own && !elsewhere && s.isOpen(e):
			return e, confirmEarlier(ctx, env, e, passed, dry)
		case own:
			passed = cmp.Or(passed, s.whyNot(e, elsewhere))
		case latest == nil && !elsewhere && s.isOpen(e):
			latest = e
		}
	}
	if latest == nil {
		return nil, fmt.Errorf("there is nothing left to undo%s; to list what was saved, run: undo -l", far)
	}
	from := "terminal"
	if env.Mode == commands.ByHand {
		from = "shell"
	}
	return nil, fmt.Errorf("nothing left to undo from this %s; the latest change from another shell is operation %d (%s), %s ago, %s; to undo it, run: undo %d",
		from, latest.N, latest.words(), latest.age(), latest.By.words(l.By), latest.N)
}

// confirmEarlier asks the user whether to undo the operation e, if it is not the latest one. passed
// says why the latest one cannot be undone. It is empty if e is the latest one.
func confirmEarlier(ctx context.Context, env *commands.Env, e *entry, passed string, dry bool) error {
	earlier := fmt.Sprintf("operation %d (%s), %s ago", e.N, e.words(), e.age())
	switch {
	case passed == "":
		return nil
	case dry:
		env.Screen.Note(passed + "; undo would continue with " + earlier)
		return nil
	case env.Mode != commands.ByHand:
		return fmt.Errorf("nothing was done: %s; to undo %s, run: undo %d", passed, earlier, e.N)
	}
	yes, err := env.Screen.Ask(ctx, passed+". Undo "+earlier+", instead? [y/N] ")
	if err == nil && !yes {
		err = errors.New("nothing was undone")
	}
	return err
}

// whyNot says why undo without a number does not undo the operation e, which is the latest one.
func (s *store) whyNot(e *entry, elsewhere bool) string {
	text := fmt.Sprintf("the latest change, operation %d (%s), ", e.N, e.words())
	switch {
	case e.State == undone:
		return text + "was undone already"
	case elsewhere:
		return text + "was made on " + e.location()
	case e.Undoes != 0:
		return text + fmt.Sprintf("is itself an undo; to undo that, run undo %d", e.N)
	case e.Partly:
		return text + "was undone in part"
	}
	return text + "is damaged"
}

// isOpen reports whether undo without a number may undo the operation e.
func (s *store) isOpen(e *entry) bool {
	return e.State != undone && !e.Partly && e.Undoes == 0 && s.dumpName(e.N) != ""
}

// words returns the command of the operation and its path. If the line ran several commands, it
// returns the first and the last one.
func (e *entry) words() string {
	text := e.Command + " " + e.Path
	if e.Last != "" {
		text += " to " + e.Last
	}
	return text
}

func (e *entry) age() string { return commands.Age(time.Since(e.Time)) }
