package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// clings reports whether a word has a bar or an arrow that may have been meant as one.
func clings(w commands.Word) bool {
	return !w.Quoted && (strings.HasPrefix(w.Text, "|") || strings.HasPrefix(w.Text, ">") || strings.HasSuffix(w.Text, "|") ||
		strings.HasPrefix(w.Text, "/") && strings.ContainsAny(w.Text, "|>"))
}

// redirect has the answers of a line go where the mark and what stands behind it say.
func (s *Shell) redirect(l commands.Line, mark, rest string) (commands.Line, error) {
	o := &outlet{s: s}
	if l.Program() {
		return l, wrongOutlet("zksh interprets %[1]s itself, even after --; to pass it to the program, quote it, or write -- sh -c '… %[1]s …'", mark)
	}
	if mark == "|" {
		if o.program = strings.Trim(rest, commands.Blanks); o.program == "" {
			return l, wrongOutlet("missing program after |; if | is data, quote it")
		}
		return l.WrappedBy(o.run), nil
	}
	words, err := syntax.Split(rest)
	switch {
	case err != nil:
		return l, wrongOutlet("%s", err)
	case len(words) == 0 || words[0].Text == "":
		return l, wrongOutlet("missing file name after %[1]s; if %[1]s is data, quote it", mark)
	case len(words) > 1:
		return l, wrongOutlet("unexpected word %q after the file name; if %s is data, quote it", words[1].Text, mark)
	}
	o.file, o.appends = words[0].Text, mark == ">>"
	if !words[0].Quoted {
		o.file = userfile.Home(o.file)
	}
	return l.WrappedBy(o.run), nil
}

func wrongOutlet(format string, args ...any) error {
	return &commands.UsageError{Problem: fmt.Sprintf(format, args...)}
}

// outlet is the Screen of a line whose answers go to a program or into a file. Remarks,
// questions and events do not.
type outlet struct {
	commands.Screen
	s       *Shell
	program string // for sh; empty: it is the file
	file    string
	appends bool

	ctx context.Context // of the line
	env *commands.Env   // of the shell

	mu      sync.Mutex // guards these
	begun   bool
	to      *os.File // the file, or the program's standard input
	made    bool     // there was no such file
	printer render.Printer
	cmd     *exec.Cmd
	ran     chan error // has what became of it
}

// errReaderEnded is what a command gets that prints for a program which has ended.
var errReaderEnded = errors.New("the program has ended")

// run is a commands.Wrapper. A command that fails before it has answered leaves the file
// as it is, and no program is started.
func (o *outlet) run(ctx context.Context, env *commands.Env, do commands.Do) error {
	o.ctx, o.env, o.Screen = ctx, env, env.Screen
	if o.program == "" {
		if err := o.openFile(); err != nil {
			return err
		}
	} else if env.Mode == commands.ByHand {
		o.s.lent.Store(true)
		defer o.s.lent.Store(false)
	}
	own := *env
	own.Screen = o
	err := do(ctx, &own)
	if errors.Is(err, errReaderEnded) {
		err = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		err = o.begin()
	}
	if o.program == "" {
		return errors.Join(err, o.closeFile())
	}
	return o.await(err)
}

// openFile opens the file before anything is done; what it holds stays until there is
// an answer. Opening a FIFO can block for ever: the goroutine that does it then ends
// with the process.
func (o *outlet) openFile() error {
	flags := os.O_WRONLY | os.O_CREATE
	if o.appends {
		flags |= os.O_APPEND
	}
	_, err := os.Stat(o.file)
	o.made = errors.Is(err, fs.ErrNotExist)
	opened := make(chan error, 1)
	var f *os.File
	go func() {
		var err error
		f, err = os.OpenFile(o.file, flags, 0o666)
		opened <- err
	}()
	select {
	case err := <-opened:
		o.to = f
		return err
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	}
}

func (o *outlet) closeFile() error {
	err := o.to.Close()
	if !o.begun && o.made {
		err = errors.Join(err, os.Remove(o.file))
	}
	return err
}

// begin gets ready for the first answer, or for the end without one. It is called with
// mu held.
func (o *outlet) begin() error {
	if o.begun {
		return nil
	}
	o.begun = true
	if o.program != "" {
		if err := o.start(); err != nil {
			return err
		}
	} else if info, err := o.to.Stat(); err != nil {
		return err
	} else if info.Mode().IsRegular() && !o.appends {
		if err := o.to.Truncate(0); err != nil {
			return err
		}
	}
	o.printer = render.Printer{W: o.to, Format: o.s.cfg.Format}
	return nil
}

// start runs the program. It ends with the shell; Ctrl-C by hand reaches it as it
// reaches us, and is for it to heed.
func (o *outlet) start() error {
	in, to, err := os.Pipe()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(o.ctx))
	stop := context.AfterFunc(o.ctx, func() {
		if cause := context.Cause(o.ctx); o.env.Mode != commands.ByHand || !errors.Is(cause, exit.ErrInterrupted) {
			end(cause)
		}
	})
	o.to, o.ran = to, make(chan error, 1)
	o.cmd = exec.CommandContext(ctx, "sh", "-c", o.program)
	o.cmd.Stdin = in
	o.env.Streams.Attach(o.cmd)
	go func() { // ends with the program; await waits for that
		defer o.s.giveBackOnPanic()
		err := tty.RunJob(o.cmd)
		stop()
		end(nil)
		o.ran <- errors.Join(err, in.Close()) // whoever prints hears of the end
	}()
	return nil
}

// keyIsOurs is how long is waited for the signal of a key that has ended the program: it
// is for us, too, and what comes late would end the next line's command. It does not
// come where something else has sent it.
const keyIsOurs = 3 * time.Second

// await waits for the program, and says what has become of the line: a failure of the
// command, or else the program's status.
func (o *outlet) await(err error) error {
	if o.cmd == nil {
		return err
	}
	if closed := o.to.Close(); err == nil {
		err = closed
	}
	var ran error
	_ = o.Screen.Lend(func() error { ran = <-o.ran; return nil })
	if o.env.Mode == commands.ByHand && tty.EndedByKey(o.cmd) {
		select {
		case <-o.ctx.Done():
		case <-time.After(keyIsOurs):
		}
	}
	switch {
	case err != nil:
		return err
	case o.cmd.ProcessState == nil:
		return &commands.StatusError{Status: commands.StatusCannotRun, Err: fmt.Errorf("cannot run a program: %w", ran)}
	}
	switch status := tty.ExitStatus(o.cmd); {
	case status == commands.StatusOK:
		return nil
	case status == commands.StatusInterrupted && o.env.Mode == commands.ByHand:
		return exit.ErrInterrupted
	default:
		return &commands.StatusError{Status: status}
	}
}

// Print is part of commands.Screen.
func (o *outlet) Print(v render.Value) error {
	if o.s.screen.isShut() {
		return errShut
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.begin(); err != nil {
		return err
	}
	err := o.printer.Print(v)
	if o.program != "" && exit.Unread(err) {
		return errReaderEnded
	}
	return err
}

// Progress is part of commands.Screen. The terminal is the program's.
func (o *outlet) Progress(verb string) (update func(done, total int), end func()) {
	if o.program != "" {
		return func(int, int) {}, func() {}
	}
	return o.Screen.Progress(verb)
}

// Region is part of commands.Screen. What reads the answers is no terminal.
func (o *outlet) Region(on commands.Stream) commands.Region {
	if o.program != "" || on == commands.Answers {
		return noRegion{}
	}
	return o.Screen.Region(on)
}

// noRegion is a region where there is no terminal.
type noRegion struct{}

// Size is part of commands.Region.
func (noRegion) Size() (columns, rows int) { return 0, 0 }

// Draw is part of commands.Region.
func (noRegion) Draw(...string) error { return nil }

// Close is part of commands.Region.
func (noRegion) Close(bool) error { return nil }
