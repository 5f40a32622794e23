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
	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// hasUnspacedOperator reports whether an unquoted word contains a | or > that was probably meant
// as a pipe or redirection but lacks spaces around it.
func hasUnspacedOperator(w commands.Word) bool {
	return !w.Quoted && (strings.HasPrefix(w.Text, "|") || strings.HasPrefix(w.Text, ">") ||
		strings.HasSuffix(w.Text, "|") ||
		strings.HasPrefix(w.Text, "/") && strings.ContainsAny(w.Text, "|>"))
}

// redirect returns the line l with its answers redirected to a program or file. mark is the
// operator |, > or >>, and rest is the text after it.
func (s *Shell) redirect(l commands.Line, mark, rest string) (commands.Line, error) {
	o := &redirection{s: s}
	if l.Program() {
		return l, usageErrorf("zksh interprets %[1]s itself, even after --; to pass it to the program, quote it, "+
			"or write -- sh -c '… %[1]s …'", mark)
	}
	if mark == "|" {
		if o.program = strings.Trim(rest, commands.Blanks); o.program == "" {
			return l, usageErrorf("missing program after |; if | is data, quote it")
		}
		return l.WrappedBy(o.run), nil
	}
	words, err := syntax.Split(rest)
	switch {
	case err != nil:
		return l, usageErrorf("%s", err)
	case len(words) == 0 || words[0].Text == "":
		return l, usageErrorf("missing file name after %[1]s; if %[1]s is data, quote it", mark)
	case len(words) > 1:
		return l, usageErrorf("unexpected word %q after the file name; if %s is data, quote it", words[1].Text, mark)
	}
	if o.file = words[0].Text; !words[0].Quoted {
		o.file = userfile.Home(o.file)
	}
	if userfile.IsStdout(o.file) { // the answers already go there
		return l, nil
	}
	o.appends = mark == ">>" || userfile.IsStream(o.file)
	return l.WrappedBy(o.run), nil
}

func usageErrorf(format string, args ...any) error {
	return &commands.UsageError{Problem: fmt.Sprintf(format, args...)}
}

// A redirection is the Screen of a line whose answers go to a program or file. Remarks, questions
// and events still go to the terminal.
type redirection struct {
	commands.Screen
	s       *Shell
	program string // command line for sh, or empty if the answers go to a file
	file    string
	appends bool // whether to append the answers to the file instead of truncating it

	ctx context.Context // context of the line
	env *commands.Env   // environment of the line, with its usual Screen

	mu      sync.Mutex // guards the fields below
	begun   bool       // whether begin has been called
	dst     *os.File   // file, or standard input of the program
	created bool       // whether the file did not exist before
	printer render.Printer
	cmd     *exec.Cmd  // nil until the program is started
	exited  chan error // receives the error of the program when it has terminated
}

// errReaderClosed is returned to a command that prints after the program has closed its standard
// input.
var errReaderClosed = errors.New("the program has ended")

// run is a commands.Wrapper that runs a command and redirects its answers. If the command fails
// before its first answer, run does not change the file or start the program.
func (o *redirection) run(ctx context.Context, env *commands.Env, do commands.Do) error {
	o.ctx, o.env, o.Screen = ctx, env, env.Screen
	if o.program == "" {
		if err := o.openFile(); err != nil {
			return err
		}
	} else if env.Mode == commands.ByHand {
		o.s.terminalLent.Store(true)
		defer o.s.terminalLent.Store(false)
	}
	own := *env
	own.Screen = o
	err := do(ctx, &own)
	if errors.Is(err, errReaderClosed) {
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

// openFile opens the file before the command runs. It does not truncate the file, because begin
// does that at the first answer. Opening a FIFO can block forever. If the context is done, openFile
// returns anyway, and the goroutine that opens the FIFO may remain until the process exits.
func (o *redirection) openFile() (err error) {
	if userfile.IsStream(o.file) {
		o.dst, err = userfile.OpenToWrite(o.file, 0, 0)
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE
	if o.appends {
		flags |= os.O_APPEND
	}
	_, err = os.Stat(o.file)
	o.created = errors.Is(err, fs.ErrNotExist)
	opened := make(chan error, 1)
	var f *os.File
	go func() {
		var err error
		f, err = os.OpenFile(o.file, flags, 0o666)
		opened <- err
	}()
	select {
	case err := <-opened:
		o.dst = f
		return err
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	}
}

func (o *redirection) closeFile() error {
	err := o.dst.Close()
	if !o.begun && o.created {
		err = errors.Join(err, os.Remove(o.file))
	}
	return err
}

// begin starts the program or truncates the file. It is called before the first answer, or when
// the command has ended without an answer. The caller must hold mu.
func (o *redirection) begin() error {
	if o.begun {
		return nil
	}
	o.begun = true
	if o.program != "" {
		if err := o.start(); err != nil {
			return err
		}
	} else if info, err := o.dst.Stat(); err != nil {
		return err
	} else if info.Mode().IsRegular() && !o.appends {
		if err := o.dst.Truncate(0); err != nil {
			return err
		}
	}
	o.printer = render.Printer{W: o.dst, Format: o.s.cfg.Format}
	if o.program != "" {
		o.printer.W = programInput{o.dst}
	}
	return nil
}

// programInput is the standard input of a program. Its Write returns errReaderClosed after the
// program has closed it.
type programInput struct{ pipe *os.File }

func (p programInput) Write(b []byte) (int, error) {
	n, err := p.pipe.Write(b)
	if peer.Unread(err) {
		err = errReaderClosed
	}
	return n, err
}

// start starts the program. The program is terminated when the shell ends. In the interactive
// shell, Ctrl-C does not cancel the context of the program, because the terminal sends the signal
// to the program as well.
func (o *redirection) start() error {
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
	o.dst, o.exited = to, make(chan error, 1)
	o.cmd = exec.CommandContext(ctx, "sh", "-c", o.program)
	o.cmd.Stdin = in
	o.env.Streams.Attach(o.cmd)
	go func() { // ends when the program has terminated, which await waits for
		defer o.s.restoreTerminalOnPanic()
		err := tty.RunJob(o.cmd)
		stop()
		end(nil)
		o.exited <- errors.Join(err, in.Close()) // closing in makes later writes fail
	}()
	return nil
}

// keySignalTimeout is how long await waits for zksh to receive the signal that has terminated the
// program. A key such as Ctrl-C sends the signal to both. If zksh received it only after the line
// had ended, it would interrupt the next line. If another process has signaled only the program,
// await waits in vain.
const keySignalTimeout = 3 * time.Second

// await waits for the program to terminate and returns the error of the line. err is the error of
// the command, which takes precedence over the exit status of the program.
func (o *redirection) await(err error) error {
	if o.cmd == nil {
		return err
	}
	if closed := o.dst.Close(); err == nil {
		err = closed
	}
	var ran error
	_ = o.Screen.Lend(func() error { ran = <-o.exited; return nil })
	if o.env.Mode == commands.ByHand && tty.EndedByKey(o.cmd) {
		select {
		case <-o.ctx.Done():
		case <-time.After(keySignalTimeout):
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

// Print writes a value to the program or file.
func (o *redirection) Print(v render.Value) error {
	if o.s.screen.isMuted() {
		return errMuted
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.begin(); err != nil {
		return err
	}
	return o.printer.Print(v)
}

// Progress shows nothing if the answers go to a program, because that program may use the
// terminal.
func (o *redirection) Progress(verb string) (update func(done, total int), end func()) {
	if o.program != "" {
		return func(int, int) {}, func() {}
	}
	return o.Screen.Progress(verb)
}

// Region returns a region that draws nothing, with one exception. If the answers go to a file,
// remarks still go to the terminal, so they get a normal region.
func (o *redirection) Region(on commands.Stream) commands.Region {
	if o.program != "" || on == commands.Answers {
		return noRegion{}
	}
	return o.Screen.Region(on)
}

// noRegion is a region that draws nothing, for output that is not a terminal.
type noRegion struct{}

var _ commands.Region = noRegion{}

// Size returns 0, 0, because there is no terminal.
func (noRegion) Size() (columns, rows int) { return 0, 0 }

// Draw does nothing.
func (noRegion) Draw(...string) error { return nil }

// Paint does nothing.
func (noRegion) Paint(...render.Line) error { return nil }

// Close does nothing.
func (noRegion) Close(bool) error { return nil }
