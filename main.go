// Zksh is a ZooKeeper shell: zkCli's commands by hand, in pipes and one at a time.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/commands/undo"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/playground"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/tutorial"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/shell"
	"github.com/zksh/zksh/shell/exit"
)

// version is set by the build; without it the module's version is used.
var version = ""

func main() {
	if status, is := child.Keeper(); is {
		os.Exit(status)
	}
	os.Exit(run())
}

// run is the program without its exit, so that everything deferred happens.
func run() int {
	if len(os.Args) > 1 && os.Args[1] == app.CompleteWord {
		_, _ = io.WriteString(os.Stdout, app.Complete(os.Args[2:], app.Surroundings(), idle())) // it says nothing of what goes wrong
		return commands.StatusOK
	}
	opts, err := app.ParseOptions(os.Args[1:], app.Surroundings())
	if err != nil {
		return refuse(err)
	}
	switch {
	case opts.ShowHelp:
		return show(app.Help(columns(os.Stdout)))
	case opts.ShowVersion:
		return show("zksh " + versionText() + "\n")
	}
	if text, is, err := app.Page(opts.Command, versionText(), idle); is {
		if err != nil {
			return refuse(err)
		}
		return show(text)
	}

	in, name, err := opts.Source()
	if err != nil {
		return refuse(err)
	}
	defer in.Close()
	interactive := opts.FromStdin() && !opts.HasFile && tty.Is(os.Stdin) && tty.Is(os.Stdout)
	if opts.FromStdin() && !interactive && !opts.Quiet && tty.Is(os.Stdin) && tty.Is(os.Stderr) {
		complain(errors.New("reading commands from the terminal, without a prompt; press Ctrl-D to end the input"))
	}
	ctx, interrupts, stop := signals(interactive)
	defer stop()
	var place *playground.Place
	addr := "" // of the sandbox
	boundGarbage(opts.Sandbox)
	if opts.Sandbox {
		if place, err = playground.Open(opts.SandboxDir, opts.Listen, opts.As, len(opts.Command) > 0); err != nil {
			return refuse(err)
		}
		defer place.Close()
		if opts.Listen != "" {
			return serve(ctx, place)
		}
		addr, opts.Server = place.Addr, place.Addr
	}
	connection := opts.Connection()
	connection.WaitOnce = !interactive && len(opts.Command) == 0
	session, err := zkconn.Open(connection)
	if err != nil {
		return refuse(err)
	}
	if !opts.Quiet {
		for _, remark := range opts.Secured.Remarks {
			complain(errors.New(remark))
		}
	}
	locks, guide := lockcmd.New(), tutorial.New(addr)
	defer guide.Close()
	if !opts.NoFence {
		locks.Fence(session, opts.GoOn && !interactive)
	}
	log := undoLog(opts, interactive)
	cfg := shell.Config{
		Session: session, Commands: table(log, locks, guide, place), AfterLine: guide.AfterLine,
		Locks: locks, Format: opts.Format, Version: versionText(),
		Streams: streams(opts, interactive), Out: output(os.Stdout), Err: output(os.Stderr), Stdin: os.Stdin,
		StopAtError: opts.StopAtError, GoOn: opts.GoOn, Quiet: opts.Quiet, Verbose: opts.Verbose, Window: opts.Window, Interrupts: interrupts,
		Pager: os.Getenv("PAGER"), IsOption: app.IsOption, Clusters: opts.Clusters(), ManualPager: manualPager(),
	}
	if cfg.Keeper, cfg.Saved, err = keeper(opts, log, interactive); err != nil {
		return refuse(err)
	}
	if opts.Server == app.DefaultServer {
		cfg.NoServer = "; use --server to specify another server, or --sandbox to work without one"
	}
	if place != nil {
		cfg.Welcome, cfg.Notices = app.Welcome(place, os.Args[0]), place.Ended()
	}
	if interactive && opts.HistoryFile != "" && opts.HistoryLines > 0 {
		if cfg.History, err = history.Open(opts.HistoryFile, opts.HistoryLines); err != nil {
			complain(fmt.Errorf("the history will not be saved: %w", err))
			cfg.History = nil
		} else {
			defer cfg.History.Close()
		}
	}
	sh := shell.New(cfg)
	if opts.Wait {
		if status := sh.Wait(ctx, opts.Timeout); status != commands.StatusOK {
			return status
		}
	}
	switch {
	case len(opts.Command) > 0:
		return sh.RunCommand(ctx, opts.Command)
	case interactive:
		return sh.RunEditor(ctx, sh.Editor(os.Stdin, os.Stdout, os.Getenv))
	}
	return sh.RunLines(ctx, name, in)
}

// boundGarbage makes the collector work harder when the program takes much memory, so that
// garbage adds little to what a large reply takes. It is not for a sandbox, which has a
// tree of any size in memory, nor where the environment says otherwise.
func boundGarbage(sandbox bool) {
	const usual = 192 << 20
	if !sandbox && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(usual)
	}
}

// table has the commands besides the shell's own.
func table(log undo.Log, locks *lockcmd.Table, guide *tutorial.Guide, place *playground.Place) [][]*commands.Command {
	return [][]*commands.Command{commands.All(), {undo.Command(log)}, transfer.Commands(), locks.Commands(), app.SandboxCommand(place), guide.Commands()}
}

// idle is the table of commands that are looked at, and not run.
func idle() [][]*commands.Command { return table(undo.Log{}, lockcmd.New(), tutorial.New(""), nil) }

// undoLog is the user's undo log, as this program uses it.
func undoLog(opts app.Options, interactive bool) undo.Log {
	log := undo.Log{Dir: opts.UndoDir, Queue: lockcmd.InQueue}
	if interactive {
		log.By = undo.AtPrompt(tty.Name(os.Stdin))
		return log
	}
	log.By = undo.OnCommandLine(tty.Session(), tty.Name(os.Stderr))
	options := os.Args[1 : len(os.Args)-len(opts.Command)] // they name the ensemble, and the credentials
	log.Again = append(append([]string{"zksh"}, options...), "undo")
	return log
}

// keeper saves what commands destroy: in a file that is asked for, or in the undo log, at the
// prompt and for a command that a person types in another shell. saved is the last words of
// such a command; nil for all others.
func keeper(opts app.Options, log undo.Log, interactive bool) (k commands.Saver, saved func(*commands.Env) string, err error) {
	switch {
	case opts.Undo != "" && interactive:
		return nil, nil, errors.New("--undo works only in scripts; at the prompt, use the undo command")
	case opts.Undo != "":
		k, err = undo.ToFile(opts.Undo, lockcmd.InQueue)
		return k, nil, err
	case opts.UndoDir == "":
		return nil, nil, nil
	case interactive:
		return log.Saver(), nil, nil
	case len(opts.Command) > 0 && tty.Is(os.Stderr):
		s := log.Summary()
		return s, s.Text, nil
	}
	return nil, nil, nil
}

// serve keeps a sandbox up until a signal ends it, which is its proper end.
func serve(ctx context.Context, place *playground.Place) int {
	if status := show(app.Serving(place)); status != commands.StatusOK {
		return status
	}
	<-ctx.Done()
	return commands.StatusOK
}

// signals gives a context that ends with SIGTERM or SIGHUP, and by Ctrl-C and Ctrl-\
// too unless the shell is used by hand: there these are for the command, and arrive
// through the channel, which is nil otherwise.
//
// Some signals stay caught to the end. A reader that goes away shows as a failed
// write; a window that closes sends SIGHUP more than once, from the system and from
// the shell that runs there, and a leave that has begun goes on; SIGQUIT would have
// Go print the stack of every goroutine.
func signals(interactive bool) (context.Context, <-chan os.Signal, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	listen := func(sigs ...os.Signal) chan os.Signal {
		c := make(chan os.Signal, 1)
		for _, sig := range sigs {
			if !signal.Ignored(sig) { // as under nohup, or in the background of a script
				signal.Notify(c, sig) // not signal.Ignore: what commands start would inherit that
			}
		}
		return c
	}
	listen(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGQUIT)
	ends := listen(syscall.SIGTERM, syscall.SIGHUP)
	keys := listen(os.Interrupt, syscall.SIGQUIT)
	ending, forCommands := keys, (<-chan os.Signal)(nil)
	if interactive {
		ending, forCommands = nil, keys
	}
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		select {
		case sig := <-ends:
			cancel(exit.EndedBy(sig))
		case sig := <-ending:
			cancel(exit.EndedBy(sig))
		case <-ctx.Done():
		}
		signal.Stop(keys) // a second Ctrl-C ends the program at once
		time.AfterFunc(leaveGrace, func() { signal.Stop(ends) })
	}()
	return ctx, forCommands, func() {
		cancel(nil)
		<-done
	}
}

// leaveGrace is for how long another SIGTERM changes nothing: the terminal has been
// given back by then. Later it ends the program at once.
const leaveGrace = time.Second

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func output(f *os.File) shell.Output {
	terminal := tty.Is(f)
	if terminal {
		if err := tty.TakeEscapes(f); err != nil {
			complain(fmt.Errorf("cannot turn on escape sequences for the console: %w", err))
		}
	}
	return shell.Output{W: f, TTY: terminal, Plain: os.Getenv("NO_COLOR") != "", Dumb: dumb(), Size: func() (columns, rows int) { return tty.Size(f) }}
}

// dumb reports whether the terminal is known to have no control sequences, or not known.
func dumb() bool {
	term := os.Getenv("TERM")
	return term == "dumb" || term == "" && runtime.GOOS != "windows"
}

// manualPager returns the program for long help and pages of the manual: PAGER, which may be set to
// nothing, or less, which needs control sequences.
func manualPager() string {
	if pager, set := os.LookupEnv("PAGER"); set {
		return pager
	}
	if _, err := exec.LookPath("less"); err != nil || dumb() {
		return ""
	}
	return "less"
}

// streams are for programs that commands start. They get no standard input where
// the shell's own lines come from it.
func streams(opts app.Options, interactive bool) commands.Streams {
	s := commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if opts.FromStdin() && !interactive {
		s.In = nil
	}
	return s
}

// complain prints what goes wrong before there is a shell to report it. Its words may
// be those of the command line.
func complain(err error) {
	text := "zksh: " + err.Error()
	if tty.Is(os.Stderr) {
		text = render.Wrap(render.Safe(text), columns(os.Stderr), "")
	}
	fmt.Fprintln(os.Stderr, text)
}

// columns is how many a terminal has; 0: it is none.
func columns(f *os.File) int {
	columns, _ := tty.Size(f)
	return columns
}

func refuse(err error) int {
	complain(err)
	return exit.Status(err)
}

func show(text string) int {
	_, err := io.WriteString(os.Stdout, text)
	switch {
	case peer.Unread(err): // where no SIGPIPE has ended us
		return commands.StatusBrokenPipe
	case err != nil:
		return refuse(err)
	}
	return commands.StatusOK
}
