package commands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
)

var editCommand = &Command{
	Name: "edit", Group: "Writing", Effect: Writes | Destroys | Quotas, Args: "[-j] path",
	Summary: "edit a znode's data with $VISUAL or $EDITOR",
	Help: "edit opens the data in your editor. If you change the data, edit writes the change and prints the " +
		"difference, provided that the znode still has the version that was read.\n\n" +
		"If someone else has changed the znode in the meantime, nothing is written, and zksh prints both their " +
		"change and yours. If edit fails for this or any other reason after you changed the text, zksh prints the " +
		"name of the file that contains your text.\n\n" +
		"With -j, JSON is indented while you edit it. If the JSON was stored on one line, it is stored on one line " +
		"again.",
	Examples: []string{"edit -j /app/config", "edit /app/config"},
	Params:   []Param{pathParam},
	Look:     lookWith("get -s"),
	Flags: func(fs *pflag.FlagSet) Run {
		pretty := fs.BoolP("json", "j", false, "indent JSON in the editor; fail if the data is not JSON")
		return func(ctx context.Context, env *Env, args []string) error {
			if editorOf() == "" && !env.Streams.atTerminal() {
				return &UsageError{Problem: "standard input is not a terminal; set EDITOR to a program that does not need one, or use get -f and set -f"}
			}
			node, err := zkconn.Do(ctx, env.Session, zkconn.GetData(args[0]))
			if err != nil {
				return err
			}
			e := &edit{path: args[0], data: node.Data, stat: node.Stat, json: *pretty}
			if err := e.prepare(); err != nil {
				return err
			}
			err = e.run(ctx, env)
			return errors.Join(err, e.cleanUp(err))
		}
	},
}

// edit is one run of the command edit.
type edit struct {
	path string
	data []byte
	stat *zk.Stat
	json bool

	before string // text that the editor shows first
	after  string // text that the user saved in the editor
	file   string // name of the temporary file, or empty if there is none

	changed bool // whether the temporary file may contain text that was not written to the znode
}

// prepare converts the znode's data to the text that the editor shows.
func (e *edit) prepare() error {
	if !isText(e.data) {
		return fmt.Errorf("the data of %s is not text; use get -f FILE %s and set -f FILE %s to change it in a file",
			e.path, e.path, e.path)
	}
	e.before = string(e.data)
	if e.json {
		if !json.Valid(e.data) {
			return fmt.Errorf("the data of %s is not valid JSON; omit -j to edit it as text", e.path)
		}
		e.before = reformat(e.before, indentJSON)
	}
	return nil
}

// indentJSON formats JSON with two spaces per level.
func indentJSON(b *bytes.Buffer, data []byte) error { return json.Indent(b, data, "", "  ") }

// reformat returns JSON text formatted by form. If the text is not valid JSON, it is returned
// unchanged.
func reformat(text string, form func(*bytes.Buffer, []byte) error) string {
	var b bytes.Buffer
	if err := form(&b, []byte(text)); err != nil {
		return text
	}
	return b.String()
}

func (e *edit) run(ctx context.Context, env *Env) error {
	if err := e.editFile(ctx, env); err != nil {
		return err
	}
	if !e.changed {
		env.Screen.Note("the text is unchanged, so nothing was written")
		return env.Screen.Print(render.Answer{JSON: done("edit", e.path, "changed", false)})
	}
	data := []byte(e.after)
	if e.json {
		if !json.Valid(data) {
			return errors.New("the edited text is not valid JSON; nothing was written")
		}
		if !strings.Contains(strings.TrimSpace(string(e.data)), "\n") {
			data = []byte(reformat(e.after, json.Compact))
		}
	}
	if err := guardQuota(env, e.path, data); err != nil {
		return err
	}
	stat, err := env.Overwrite(ctx, "edit", e.path, data, e.stat.Version)
	if errors.Is(err, zkconn.BadVersion) {
		return e.conflict(ctx, env, err)
	}
	return env.answer(err, render.Answer{Words: textDiff(e.before, e.after),
		JSON: done("edit", e.path, "changed", true, "stat", (*render.Stat)(stat))})
}

// editFile writes the text to a temporary file that only the user can read. It then runs the editor
// on that file.
func (e *edit) editFile(ctx context.Context, env *Env) error {
	name := "zksh-*.txt"
	if e.json {
		name = "zksh-*.json"
	}
	f, err := os.CreateTemp("", name) // os.CreateTemp sets the mode 0600
	if err != nil {
		return err
	}
	e.file, e.changed = f.Name(), true
	_, err = f.WriteString(e.before)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = env.Screen.Lend(func() error { return runEditor(ctx, env, e.file) })
	// Indented JSON may be larger than the request with which edit writes it.
	text, readErr := userfile.ReadRegular(e.file, int64(len(e.before)+env.Session.MaxRequest()))
	if errors.Is(readErr, fs.ErrNotExist) {
		e.file = ""
	}
	if readErr != nil {
		return errors.Join(err, fmt.Errorf("cannot read the edited text: %w; nothing was written", readErr))
	}
	e.after = string(text)
	if !strings.HasSuffix(e.before, "\n") { // most editors add a line break at the end
		e.after = strings.TrimSuffix(e.after, "\n")
	}
	e.changed = e.after != e.before
	return err
}

// editorOf returns the editor named by $VISUAL or $EDITOR, or an empty string if neither is set.
func editorOf() string { return cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")) }

// atTerminal reports whether standard input is a terminal.
func (s Streams) atTerminal() bool { return s.In != nil && tty.Is(s.In) }

// runEditor runs the user's editor on a file. If standard input is not a terminal, it may be a
// script, so the editor does not get it. In that case, the editor's output goes to standard error,
// separate from the results of zksh.
func runEditor(ctx context.Context, env *Env, file string) error {
	editor := cmp.Or(editorOf(), "vi")
	// The trap keeps sh running when the user presses Ctrl-C in the editor.
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT; "+editor+` "$1"`, "sh", file)
	env.Streams.Attach(cmd)
	if env.Streams.atTerminal() {
		cmd.Stdin = env.Streams.In
	} else if env.Streams.Err != nil {
		cmd.Stdout = env.Streams.Err
	}
	err := tty.RunJob(cmd)
	if cmd.ProcessState == nil {
		return &StatusError{Status: StatusCannotRun, Err: fmt.Errorf("cannot run an editor: %w", err)}
	}
	switch status := tty.ExitStatus(cmd); status {
	case StatusOK:
		return nil
	case StatusCannotRun, StatusUnknown:
		return &StatusError{Status: status, Err: fmt.Errorf("cannot run the editor %s; set VISUAL or EDITOR to another editor", editor)}
	default:
		return fmt.Errorf("the editor exited with status %d; nothing was written", status)
	}
}

// conflict prints the user's change and the change by another client. refusal is the error with
// which the write failed because another client changed the znode.
func (e *edit) conflict(ctx context.Context, env *Env, refusal error) error {
	node, err := zkconn.Do(ctx, env.Session, zkconn.GetData(e.path))
	if err != nil {
		return errors.Join(refusal, err)
	}
	theirs := string(node.Data)
	if e.json && json.Valid(node.Data) {
		theirs = reformat(theirs, indentJSON)
	}
	if e, ok := refusal.(*zkconn.Error); ok && e.Versions != nil {
		refusal = e.WithActual(int64(node.Stat.Version))
	}
	words := fmt.Sprintf("their change (version %d to %d):\n%syour change:\n%s",
		e.stat.Version, node.Stat.Version, textDiff(e.before, theirs), textDiff(e.before, e.after))
	if err := env.Screen.Print(render.Answer{Words: words, JSON: render.Facts{"path", e.path, "before", e.before, "theirs", theirs,
		"yours", e.after, "version", node.Stat.Version}}); err != nil {
		return err
	}
	return fmt.Errorf("nothing was written, because someone else changed the znode in the meantime: %w", refusal)
}

// cleanUp deletes the temporary file, unless the file contains a change that was not written to the
// znode. failure is the error of the edit, or nil.
func (e *edit) cleanUp(failure error) error {
	switch {
	case e.file == "":
		return nil
	case failure != nil && e.changed:
		return fmt.Errorf("your text is saved in %s", e.file)
	}
	return os.Remove(e.file)
}
