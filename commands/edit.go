package commands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
)

var editCommand = &Command{
	Name: "edit", Group: "Writing", Writes: true, Destroys: true, Args: "[-j] path", Quota: true,
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
	Flags: func(fs *pflag.FlagSet) Run {
		pretty := fs.BoolP("json", "j", false, "indent JSON in the editor; fail if the data is not JSON")
		return func(ctx context.Context, env *Env, args []string) error {
			if editorOf() == "" && !env.Streams.atTerminal() {
				return &UsageError{Problem: "standard input is not a terminal; set EDITOR to a program that does not need one, or use get -f and set -f"}
			}
			data, stat, err := env.Session.Get(ctx, args[0], false)
			if err != nil {
				return err
			}
			e := &edit{path: args[0], data: data, stat: stat, json: *pretty}
			if err := e.prepare(); err != nil {
				return err
			}
			err = e.run(ctx, env)
			return errors.Join(err, e.tidy(err))
		}
	},
}

// edit is one znode's data on its way through an editor.
type edit struct {
	path string
	data []byte
	stat *zk.Stat
	json bool

	before string // what the editor was given
	after  string // what it left
	file   string // where it is
}

// prepare turns the data into text.
func (e *edit) prepare() error {
	if !IsText(e.data) {
		return fmt.Errorf("the data of %s is not text; use get -f FILE %s and set -f FILE %s to change it in a file",
			e.path, e.path, e.path)
	}
	e.before = string(e.data)
	if e.json {
		if !json.Valid(e.data) {
			return fmt.Errorf("the data of %s is not valid JSON; omit -j to edit it as text", e.path)
		}
		e.before = reform(e.before, indent)
	}
	return nil
}

// indent is the form that people read JSON in.
func indent(b *bytes.Buffer, data []byte) error { return json.Indent(b, data, "", "  ") }

// reform is valid JSON in another form.
func reform(text string, form func(*bytes.Buffer, []byte) error) string {
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
	if e.after == e.before {
		env.Screen.Note("the text is unchanged, so nothing was written")
		return env.Screen.Print(render.Answer{JSON: done("edit", e.path, "changed", false)})
	}
	data := []byte(e.after)
	if e.json {
		if !json.Valid(data) {
			return errors.New("the edited text is not valid JSON; nothing was written")
		}
		if !strings.Contains(strings.TrimSpace(string(e.data)), "\n") {
			data = []byte(reform(e.after, json.Compact))
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

// editFile has the text edited in a file that nobody else can read.
func (e *edit) editFile(ctx context.Context, env *Env) error {
	name := "zksh-*.txt"
	if e.json {
		name = "zksh-*.json"
	}
	f, err := os.CreateTemp("", name) // mode 0600
	if err != nil {
		return err
	}
	e.file = f.Name()
	_, err = f.WriteString(e.before)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	e.after = e.before // until it is known otherwise
	err = env.Screen.Lend(func() error { return runEditor(ctx, env, e.file) })
	text, readErr := os.ReadFile(e.file)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	e.after = string(text)
	if !strings.HasSuffix(e.before, "\n") { // most editors end the last line
		e.after = strings.TrimSuffix(e.after, "\n")
	}
	return err
}

// editorOf returns the editor that the user wants, or "".
func editorOf() string { return cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")) }

// atTerminal reports whether a program can read from the terminal.
func (s Streams) atTerminal() bool { return s.In != nil && tty.Is(s.In) }

// runEditor runs the editor. Without a terminal it reads nothing, as standard input may be
// a script, and what it prints is no answer.
func runEditor(ctx context.Context, env *Env, file string) error {
	editor := cmp.Or(editorOf(), "vi")
	// What Ctrl-C means to an editor is not the end of the sh that runs it.
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT; "+editor+` "$1"`, "sh", file)
	env.Streams.Lead(cmd)
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

// conflict shows what somebody else has made of the data, and what was to be made of it.
func (e *edit) conflict(ctx context.Context, env *Env, refusal error) error {
	now, stat, err := env.Session.Get(ctx, e.path, false)
	if err != nil {
		return errors.Join(refusal, err)
	}
	theirs := string(now)
	if e.json && json.Valid(now) {
		theirs = reform(theirs, indent)
	}
	words := fmt.Sprintf("their change (version %d to %d):\n%syour change:\n%s",
		e.stat.Version, stat.Version, textDiff(e.before, theirs), textDiff(e.before, e.after))
	if err := env.Screen.Print(render.Answer{Words: words, JSON: render.Facts{"path", e.path, "before", e.before, "theirs", theirs,
		"yours", e.after, "version", stat.Version}}); err != nil {
		return err
	}
	return fmt.Errorf("nothing was written, because someone else changed the znode in the meantime: %w", refusal)
}

// tidy removes the file, unless a change would be lost with it.
func (e *edit) tidy(failure error) error {
	switch {
	case e.file == "":
		return nil
	case failure != nil && e.after != e.before:
		return fmt.Errorf("your text is saved in %s", e.file)
	}
	return os.Remove(e.file)
}

// The bounds of a textDiff: lines around a change, and how many pairs of lines are
// compared for the shortest one.
const (
	diffContext = 2
	maxPairs    = 4 << 20
)

// textDiff is what makes one text of another: lines that begin with - and +, and some of
// those around them.
func textDiff(before, after string) string {
	a, b := textLines(before), textLines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []string
	same := func(lines []string) {
		for _, l := range lines {
			all = append(all, "  "+l)
		}
	}
	same(a[:head])
	all = append(all, edits(a[head:len(a)-tail], b[head:len(b)-tail])...)
	same(a[len(a)-tail:])
	if diff := near(all); diff != "" || before == after {
		return diff
	}
	return "only the line break at the end has changed\n"
}

// DataDiff is what makes one znode's data of another's, if both are text that people can
// read.
func DataDiff(before, after []byte) string {
	if !IsText(before) || !IsText(after) {
		return ""
	}
	return textDiff(string(before), string(after))
}

// IsText tells data that people can read.
func IsText(data []byte) bool {
	binary := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }
	return utf8.Valid(data) && !bytes.ContainsFunc(data, binary)
}

// textLines cuts a text into lines.
func textLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		return lines[:last]
	}
	return lines
}

// edits is the shortest way from one list of lines to the other, and of two that are
// too long the plainest.
func edits(a, b []string) (all []string) {
	if len(a)*len(b) > maxPairs {
		a, b, all = nil, nil, append(marked("- ", a), marked("+ ", b)...)
	}
	common := make([][]int32, len(a)+1) // how many lines a[i:] and b[j:] have in common
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	for len(a) > 0 && len(b) > 0 {
		rest := common[len(common)-1-len(a):]
		at := len(rest[0]) - 1 - len(b)
		switch {
		case a[0] == b[0]:
			all = append(all, "  "+a[0])
			a, b = a[1:], b[1:]
		case rest[1][at] >= rest[0][at+1]:
			all, a = append(all, "- "+a[0]), a[1:]
		default:
			all, b = append(all, "+ "+b[0]), b[1:]
		}
	}
	return append(append(all, marked("- ", a)...), marked("+ ", b)...)
}

func marked(mark string, lines []string) []string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = mark + l
	}
	return all
}

// near leaves of the lines of a diff those near a change.
func near(all []string) string {
	var b strings.Builder
	shown := 0 // lines so far, or left out and told
	for i, l := range all {
		if l[0] == ' ' {
			continue
		}
		if from := i - diffContext; from > shown {
			b.WriteString("  …\n")
			shown = from
		}
		for end := min(i+1+diffContext, len(all)); shown < end; shown++ {
			if shown > i && all[shown][0] != ' ' {
				break
			}
			b.WriteString(all[shown] + "\n")
		}
	}
	if shown < len(all) && shown > 0 {
		b.WriteString("  …\n")
	}
	return b.String()
}
