package undo

import (
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

// A Log is the user's undo log, as one program uses it.
type Log struct {
	Dir string // the folder; empty: there is none
	By  By     // the program
	// Queue reports whether a name is that of a znode in a lock's queue, which must not come
	// back when its session is gone.
	Queue func(name string) bool
	// Again is the command line, in words, that undoes what a command has destroyed. It is empty
	// at the prompt.
	Again []string
}

// Keeper saves in the undo log what commands destroy.
func (l Log) Keeper() *Keeper {
	return &Keeper{shelf: &store{l.Dir}, queue: l.Queue, by: l.By}
}

// By is who did an operation. Without a number, undo undoes what has the same ID.
type By struct {
	ID       string `json:"id"` // of a shell, or of all commands that are typed in one terminal session
	Kind     kind   `json:"kind"`
	Script   string `json:"script,omitempty"` // the file that source ran
	PID      int    `json:"pid"`
	Host     string `json:"host,omitempty"`
	Terminal string `json:"terminal,omitempty"`
}

// kind says how commands reach a program.
type kind string

const (
	prompt      kind = "prompt"
	commandLine kind = "command"
)

// AtPrompt is a shell with a prompt in a terminal of that name, which may be empty. Each shell
// has an ID of its own.
func AtPrompt(terminal string) By { return here(prompt, rand.Text(), terminal) }

// OnCommandLine is a program that runs a command, or a script, in a terminal session. All of
// one session share an ID; if session is empty, each program has its own.
func OnCommandLine(session, terminal string) By {
	by := here(commandLine, rand.Text(), terminal)
	if session != "" {
		sum := sha256.Sum256([]byte(by.Host + " " + session))
		by.ID = hex.EncodeToString(sum[:12])
	}
	return by
}

func here(k kind, id, terminal string) By {
	host, _ := os.Hostname() // without a name, none is shown
	return By{ID: id, Kind: k, PID: os.Getpid(), Host: host, Terminal: terminal}
}

// is reports whether two are the same shell, or the same terminal session.
func (b *By) is(other By) bool { return b != nil && b.ID != "" && b.ID == other.ID }

// elsewhere reports whether b is known to be on another machine.
func (b *By) elsewhere(here By) bool { return b.Host != "" && b.Host != here.Host }

// cell is b in a column.
func (b *By) cell(here By) string {
	switch {
	case b == nil:
		return "-"
	case b.is(here):
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
	if b.elsewhere(here) {
		text += "@" + b.Host
	}
	return text
}

// words is b in a sentence.
func (b *By) words(here By) string {
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
	if b.elsewhere(here) {
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

// facts is b in JSON.
func (b *By) facts(here By) any {
	if b == nil {
		return nil
	}
	return struct {
		*By
		Here bool `json:"here"`
	}{b, b.is(here)}
}

// pick finds the operations that are meant. Without a number, they are those of the latest
// line of this shell, or of this terminal, that are left to undo on this ensemble.
func (l Log) pick(ctx context.Context, env *commands.Env, args []string, dry bool) (lineOperations, error) {
	s := &store{l.Dir}
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return lineOperations{}, commands.Misuse("%q is not an operation number; to list the operations, run: undo -l", args[0])
		}
		e, err := s.entry(n)
		return lineOperations{operations: []*entry{e}}, err
	}
	all, err := s.list()
	if err != nil {
		return lineOperations{}, err
	}
	far, latest := "", (*entry)(nil)
	for _, e := range all {
		switch {
		case !s.open(e):
		case e.elsewhere(env) != nil:
			if far == "" {
				far = fmt.Sprintf(" here (operation %d was done on %s)", e.N, e.place())
			}
		case e.By.is(l.By):
			return s.lineOf(env, e, all), nil
		case latest == nil:
			latest = e
		}
	}
	if latest == nil {
		return lineOperations{}, fmt.Errorf("there is nothing left to undo%s; to list what was saved, run: undo -l", far)
	}
	others := s.lineOf(env, latest, all)
	return others, l.others(ctx, env, others, dry)
}

// open reports whether an operation is left to undo by one without a number.
func (s *store) open(e *entry) bool {
	return e.State != undone && !e.Partly && !e.ofUndo() && s.dumpOf(e.N) != ""
}

// others decides whether to undo an operation of somebody else without its number. At the
// prompt, the person decides. A command may undo that of a command, and no shell's.
func (l Log) others(ctx context.Context, env *commands.Env, all lineOperations, dry bool) error {
	e := all.operations[0]
	what := fmt.Sprintf("%s, %s ago, %s", all.words(), commands.Age(time.Since(e.Time)), e.By.words(l.By))
	switch {
	case dry || env.Confirm != "" || env.Mode != commands.ByHand && e.By != nil && e.By.Kind == commandLine:
		env.Screen.Note(fmt.Sprintf("nothing left to undo from this terminal; the latest change from another shell is %s", what))
		return nil
	case env.Mode != commands.ByHand:
		return fmt.Errorf("nothing left to undo from this terminal; the latest change from another shell is %s; to undo it, run: undo %d", what, e.N)
	}
	yes, err := env.Screen.Ask(ctx, fmt.Sprintf("nothing left to undo from this shell; the latest change from another shell is %s. Undo it? [y/N] ", what))
	if err == nil && !yes {
		err = errors.New("nothing was undone")
	}
	return err
}
