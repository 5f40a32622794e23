// Package tutorial leads a person through zksh in ten steps, on a sandbox. He types what he
// likes; what the server holds after a line, and which command it was, decides whether a
// step is done.
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

// Guide is the tutorial of one shell. Its commands and AfterLine are called one at a time.
type Guide struct {
	addr   string // of the sandbox; empty: there is none
	folder string // where it all happens; empty: it has not begun
	at     int    // the task that is next
	ben    *partner
	mu     sync.Mutex // a command that was left behind may go on
}

// New makes a guide for a shell on the sandbox at addr, which is empty if it has none.
func New(addr string) *Guide { return &Guide{addr: addr} }

// Close ends what the tutorial has begun.
func (g *Guide) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.end()
}

func (g *Guide) end() error {
	g.folder, g.at = "", 0
	err := g.ben.leave()
	g.ben = nil
	return err
}

// Commands is the command tutorial.
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
				return g.command(ctx, env, *skip, *end)
			}
		},
	}}
}

func (g *Guide) command(ctx context.Context, env *commands.Env, skip, end bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case env.Mode != commands.ByHand:
		return errors.New("the tutorial needs an interactive shell: start zksh --sandbox, and type tutorial at its prompt")
	case g.addr == "":
		return errors.New("the tutorial creates and changes znodes, so it runs only in a sandbox: quit, start zksh --sandbox, and type tutorial at its prompt")
	case g.elsewhere(env):
		return fmt.Errorf("the tutorial runs only in the sandbox; to return to it, run: connect %s", g.addr)
	case g.folder == "" && (skip || end):
		return errors.New("no tutorial is running; to start one, type: tutorial")
	case end:
		return errors.Join(g.end(), env.Screen.Print(page{event: "end", say: "The tutorial has ended. The znodes that you created are still there."}))
	case skip:
		return g.next(ctx, env)
	case g.folder == "":
		return g.begin(ctx, env)
	}
	return g.show(env, true)
}

// elsewhere tells that the shell is connected to something else than the sandbox.
func (g *Guide) elsewhere(env *commands.Env) bool { return env.Session.Servers().Spec != g.addr }

// begin takes a folder that nobody has yet.
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
			g.folder, g.at = folder, 0
			return g.show(env, true)
		}
	}
}

// lookWithin is for how long a check keeps a person from the next line, which may be the one
// that lets the sandbox go on.
const lookWithin = 3 * time.Second

// silentAfter are the commands that the tutorial does not remark on; the empty name is that
// of an empty line.
var silentAfter = map[string]bool{"": true, "clear": true, "tutorial": true}

// AfterLine is called when a line of this command has ended that was typed by hand, with its
// error.
func (g *Guide) AfterLine(ctx context.Context, env *commands.Env, cmd string, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.folder == "" || silentAfter[cmd] || g.elsewhere(env) {
		return nil
	}
	if !env.Session.Live() {
		return env.Screen.Print(page{event: "hint", say: "Tutorial: there is no connection to the sandbox. To connect again, type:", lines: []string{"connect"}})
	}
	t := tasks[g.at]
	looking, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	done, checkErr := t.done(looking, &line{env.Session, g.folder, cmd, err})
	switch {
	case checkErr != nil && ctx.Err() == nil:
		return env.Screen.Print(page{event: "hint", hint: "the sandbox does not answer (" + checkErr.Error() + "). If it is paused, type: sandbox resume."})
	case checkErr != nil:
		return checkErr
	case done:
		return g.next(ctx, env)
	}
	return env.Screen.Print(page{event: "hint", hint: g.in(t.hint), lines: []string{g.in(t.line)}})
}

// next goes on to the next task.
func (g *Guide) next(ctx context.Context, env *commands.Env) error {
	if after := tasks[g.at].after; after != nil {
		if err := after(g, ctx); err != nil {
			return err
		}
	}
	before := tasks[g.at].step
	if g.at++; g.at == len(tasks) {
		return errors.Join(g.end(), env.Screen.Print(page{event: "end", say: farewell}))
	}
	return g.show(env, tasks[g.at].step != before)
}

// show shows the task that is next, below the title of its step if that is wanted.
func (g *Guide) show(env *commands.Env, titled bool) error {
	t := tasks[g.at]
	p := page{event: "step", step: t.step, say: g.in(t.say), lines: []string{g.in(t.line)}}
	if titled {
		p.title = titles[t.step-1]
	}
	return env.Screen.Print(p)
}

// in puts the folder into a text.
func (g *Guide) in(text string) string { return strings.ReplaceAll(text, "{}", g.folder) }

// page is something that the tutorial says.
type page struct {
	event string // step, hint or end
	step  int
	title string // empty: the step goes on
	say   string // paragraphs
	hint  string
	lines []string // to be typed
}

// proseWidth is as wide as is easy to read.
const proseWidth = 76

// Text is part of render.Value.
func (p page) Text(w io.Writer) error { return p.FitText(w, proseWidth) }

// FitText is part of render.Fitter.
func (p page) FitText(w io.Writer, columns int) error {
	var b strings.Builder
	columns = min(columns-1, proseWidth)
	b.WriteByte('\n')
	if p.title != "" {
		fmt.Fprintf(&b, "Step %d of %d: %s\n\n", p.step, len(titles), p.title)
	}
	say := p.say
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

// IsEvent is part of render.Event: what is said is no answer of the line.
func (page) IsEvent() {}

// MarshalJSON gives the same facts.
func (p page) MarshalJSON() ([]byte, error) {
	return render.Marshal(struct {
		Event string   `json:"event"`
		What  string   `json:"what"`
		Step  int      `json:"step,omitempty"`
		Title string   `json:"title,omitempty"`
		Say   string   `json:"say,omitempty"`
		Hint  string   `json:"hint,omitempty"`
		Type  []string `json:"type,omitempty"`
	}{"tutorial", p.event, p.step, p.title, p.say, p.hint, p.lines})
}

func exists(ctx context.Context, s *zkconn.Session, path string) (bool, error) {
	err := zkconn.Exec(ctx, s, zkconn.Exists(path))
	if errors.Is(err, zkconn.NoNode) {
		return false, nil
	}
	return err == nil, err
}
