// Package tutorial implements the tutorial command, which explains zksh to new users in ten
// steps, on a sandbox. The user can type any line. After each line, the tutorial decides from
// the server's state, or from the command that the user typed, whether the current step is
// done.
//
// Begin reading with Guide; the steps are in steps.go. partner.go contains Ben, a second
// client that contends for a lock.
package tutorial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Guide is the tutorial of one shell. The caller must not call its commands and AfterLine
// concurrently.
type Guide struct {
	addr      string // address of the sandbox, or empty if the shell is not on a sandbox
	folder    string // the znode in which the user works, or empty if the tutorial is not running
	taskIndex int    // index of the current task
	ben       *partner
	mu        sync.Mutex // guards the fields, because an interrupted command may still be running
}

// New returns a Guide for a shell on the sandbox at addr. If the shell has no sandbox, addr is
// empty.
func New(addr string) *Guide { return &Guide{addr: addr} }

// Close ends the tutorial, and closes the session of its second client, Ben.
func (g *Guide) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.end()
}

func (g *Guide) end() error {
	g.folder, g.taskIndex = "", 0
	err := g.ben.leave()
	g.ben = nil
	return err
}

// Commands returns the tutorial command.
func (g *Guide) Commands() []*commands.Command {
	return []*commands.Command{{
		Name: "tutorial", Group: "Sandbox", Effect: commands.Offline, Args: "[--skip] [--end]",
		Summary: "learn ZooKeeper and zksh in ten steps in the sandbox",
		Help: "The tutorial takes about five minutes. It explains what to type and why, and continues when you have " +
			"done it. You can also type any other line at any time.\n\n" +
			"Without a flag, the command starts the tutorial. If the tutorial is already running, the command shows " +
			"the current step again.",
		Examples: []string{"tutorial", "tutorial --skip", "tutorial --end"},
		Flags: func(fs *pflag.FlagSet) commands.Run {
			skip := fs.Bool("skip", false, "skip the line that the tutorial asks for")
			end := fs.Bool("end", false, "end the tutorial")
			return func(ctx context.Context, env *commands.Env, _ []string) error {
				if *skip && *end {
					return commands.Misuse("--skip and --end cannot be combined")
				}
				return g.run(ctx, env, *skip, *end)
			}
		},
	}}
}

func (g *Guide) run(ctx context.Context, env *commands.Env, skip, end bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case env.Mode != commands.ByHand:
		return errors.New("the tutorial needs an interactive shell: start zksh --sandbox, " +
			"and type tutorial at its prompt")
	case g.addr == "":
		return errors.New("the tutorial creates and changes znodes, so it runs only in an empty sandbox: quit, " +
			"start zksh --sandbox, and type tutorial at its prompt")
	case g.leftSandbox(env):
		return fmt.Errorf("the tutorial runs only in the sandbox; to return to it, run: connect %s", g.addr)
	case g.folder == "" && (skip || end):
		return errors.New("no tutorial is running; to start one, type: tutorial")
	case end:
		return errors.Join(g.end(), env.Screen.Print(message{event: "end",
			text: "The tutorial has ended. The znodes that you created are still there."}))
	case skip:
		return g.next(ctx, env)
	case g.folder == "":
		return g.begin(ctx, env)
	}
	return g.show(env, true)
}

// leftSandbox reports whether the user has connected the shell to servers other than the sandbox.
func (g *Guide) leftSandbox(env *commands.Env) bool { return env.Session.Servers().Spec != g.addr }

// begin starts the tutorial. It chooses a path for the tutorial's znode at which no znode exists
// yet.
func (g *Guide) begin(ctx context.Context, env *commands.Env) error {
	for n := 1; ; n++ {
		folder := "/tutorial"
		if n > 1 {
			folder = fmt.Sprintf("/tutorial-%d", n)
		}
		switch there, err := exists(ctx, env.Session, folder); {
		case err != nil:
			return err
		case !there:
			g.folder, g.taskIndex = folder, 0
			return g.show(env, true)
		}
	}
}

// checkTimeout is the time limit for a check that runs after a line. It is short because the check
// delays the user's next line, which may be the one that resumes a paused sandbox.
const checkTimeout = 3 * time.Second

// ignoredCommands contains the commands after which the tutorial prints nothing. An empty line has
// an empty command name.
var ignoredCommands = map[string]bool{"": true, "clear": true, "tutorial": true}

// AfterLine prints the next task or a hint. The shell calls it after each line that the user
// typed at the prompt, with the command of the line and its error.
func (g *Guide) AfterLine(ctx context.Context, env *commands.Env, cmd string, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.folder == "" || ignoredCommands[cmd] || g.leftSandbox(env) {
		return nil
	}
	if !env.Session.Live() {
		return env.Screen.Print(message{event: "hint", text: "Tutorial: there is no connection to the sandbox. " +
			"To connect again, type:", lines: []string{"connect"}})
	}
	t := tasks[g.taskIndex]
	checkCtx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	done, checkErr := t.done(checkCtx, &finishedLine{env.Session, g.folder, cmd, err})
	switch {
	case checkErr != nil && ctx.Err() == nil:
		return env.Screen.Print(message{event: "hint", hint: "the sandbox does not answer (" + checkErr.Error() +
			"). If it is paused, type: sandbox resume."})
	case checkErr != nil:
		return checkErr
	case done:
		return g.next(ctx, env)
	}
	return env.Screen.Print(message{event: "hint", hint: g.expand(t.hint), lines: []string{g.expand(t.line)}})
}

// next marks the current task as done or skipped, and shows the next one.
func (g *Guide) next(ctx context.Context, env *commands.Env) error {
	if after := tasks[g.taskIndex].after; after != nil {
		if err := after(g, ctx); err != nil {
			return err
		}
	}
	before := tasks[g.taskIndex].step
	if g.taskIndex++; g.taskIndex == len(tasks) {
		return errors.Join(g.end(), env.Screen.Print(message{event: "end", text: farewell}))
	}
	return g.show(env, tasks[g.taskIndex].step != before)
}

// show prints the current task. If titled is true, it also prints the title of the step.
func (g *Guide) show(env *commands.Env, titled bool) error {
	t := tasks[g.taskIndex]
	p := message{event: "step", step: t.step, text: g.expand(t.text), lines: []string{g.expand(t.line)}}
	if titled {
		p.title = titles[t.step-1]
	}
	return env.Screen.Print(p)
}

// expand replaces each {} in text with the path of the tutorial's znode.
func (g *Guide) expand(text string) string { return strings.ReplaceAll(text, "{}", g.folder) }

// message is a text that the tutorial prints.
type message struct {
	event string // "step", "hint" or "end"
	step  int
	title string // title of a new step, or empty if the step continues
	text  string // an empty line separates paragraphs
	hint  string
	lines []string // lines that the user must type
}

// maxWidth is the maximum width of text in columns. Longer lines are hard to read.
const maxWidth = 76

// Text implements render.Value.
func (p message) Text(w io.Writer) error { return p.FitText(w, maxWidth) }

// FitText implements render.Fitter.
func (p message) FitText(w io.Writer, columns int) error {
	var b strings.Builder
	columns = min(columns-1, maxWidth)
	b.WriteByte('\n')
	if p.title != "" {
		fmt.Fprintf(&b, "Step %d of %d: %s\n\n", p.step, len(titles), p.title)
	}
	say := p.text
	if p.hint != "" {
		say = "Tutorial: " + p.hint + " (To skip this line, type: tutorial --skip)"
	}
	for i, paragraph := range strings.Split(say, "\n\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(render.Wrap(paragraph, columns, ""))
		b.WriteByte('\n')
	}
	for _, line := range p.lines {
		fmt.Fprintf(&b, "\n    %s\n", line)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// IsEvent implements render.Event. A message is an event, because it is not the answer to the
// user's line.
func (message) IsEvent() {}

// MarshalJSON encodes the message as one JSON object.
func (p message) MarshalJSON() ([]byte, error) {
	return render.Marshal(struct {
		Event string   `json:"event"`
		What  string   `json:"what"`
		Step  int      `json:"step,omitempty"`
		Title string   `json:"title,omitempty"`
		Say   string   `json:"say,omitempty"`
		Hint  string   `json:"hint,omitempty"`
		Type  []string `json:"type,omitempty"`
	}{"tutorial", p.event, p.step, p.title, p.text, p.hint, p.lines})
}

func exists(ctx context.Context, s *zkconn.Session, path string) (bool, error) {
	err := zkconn.Exec(ctx, s, zkconn.Exists(path))
	if errors.Is(err, zkconn.NoNode) {
		return false, nil
	}
	return err == nil, err
}
