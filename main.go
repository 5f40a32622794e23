// Zksh is a shell for ZooKeeper. It runs the commands of zkCli, and others, at a prompt, in
// scripts, and as one-shot commands.
//
// This file reads the options and connects the packages: it opens the session, makes the tables of
// commands, and runs a shell.Shell.
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
	"github.com/zksh/zksh/internal/app/tutorial"
	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/trace"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/shell"
	"github.com/zksh/zksh/shell/exit"
)

// version is the version of zksh. The build sets it with -ldflags -X. If it is empty, versionText
// returns the version of the Go module instead.
var version = ""

// linesInFlight is the maximum number of lines of a script in flight. It is small because a server
// with 1,000 unfinished requests (500 in an ensemble of three) stops reading requests from all its
// clients.
const linesInFlight = 64

func main() {
	if child.Keeper() {
		return
	}
	locks := lockcmd.New()
	status := run(locks)
	if status == commands.StatusInterrupted && locks.Interrupted() {
		endInterrupted()
	}
	os.Exit(status)
}

// endInterrupted ends this process with SIGINT. If that is impossible, because this is the first
// process of a container, it returns.
func endInterrupted() {
	signal.Reset(os.Interrupt)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(os.Interrupt) == nil {
		time.Sleep(interruptPatience) // the signal ends this process meanwhile
	}
}

// interruptPatience is how long endInterrupted waits for the signal that it has sent.
const interruptPatience = 100 * time.Millisecond

// run runs the program and returns its exit status. It is separate from main, because os.Exit does
// not run deferred functions.
func run(locks *lockcmd.Table) (status int) {
	if len(os.Args) > 1 && os.Args[1] == app.CompleteWord {
		_, _ = io.WriteString(os.Stdout, app.Complete(os.Args[2:], app.Surroundings(), inactiveCommands())) // completion has no way to report an error
		return commands.StatusOK
	}
	opts, err := app.ParseOptions(os.Args[1:], app.Surroundings())
	if err != nil {
		return fail(err)
	}
	switch {
	case opts.ShowHelp:
		return printText(app.Help(columns(os.Stdout)))
	case opts.ShowVersion:
		return printText("zksh " + versionText() + "\n")
	}
	if text, is, err := app.Page(opts.Command, versionText(), inactiveCommands); is {
		if err != nil {
			return fail(err)
		}
		return printText(text)
	}

	in, name, err := opts.Source()
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	interactive := opts.FromStdin() && !opts.HasFile && tty.Is(os.Stdin) && tty.Is(os.Stdout)
	if opts.FromStdin() && !interactive && !opts.Quiet && tty.Is(os.Stdin) && tty.Is(os.Stderr) {
		printError(errors.New("reading commands from the terminal, without a prompt; press Ctrl-D to end the input"))
	}
	ctx, interrupts, stop := signals(interactive)
	defer stop()
	var sandbox *app.Sandbox
	addr, tour := "", "" // address of the sandbox, and of one for the tutorial; empty if there is none
	limitMemory(opts.Sandbox)
	if opts.Sandbox {
		err := interruptible(ctx, interrupts, func(ctx context.Context) (err error) {
			sandbox, err = opts.OpenSandbox(ctx)
			return err
		})
		if err != nil {
			return fail(err)
		}
		defer sandbox.Close()
		if !opts.Quiet {
			printRemarks(sandbox.Remarks())
		}
		if opts.Listen != "" {
			return serve(ctx, sandbox)
		}
		addr = sandbox.Addr
		if sandbox.Loaded() == "" {
			tour = addr
		}
	}
	if err := interruptible(ctx, interrupts, opts.Authenticate); err != nil {
		return fail(err)
	}
	connection := opts.Connection()
	connection.WaitOnce = !interactive && len(opts.Command) == 0
	if opts.Trace != "" {
		file, err := trace.ToFile(opts.Trace)
		if err != nil {
			return fail(fmt.Errorf("--trace: %w", err))
		}
		connection.Tracer = file
		defer func() {
			if err := file.Close(); err != nil {
				printError(fmt.Errorf("--trace: %w", err))
				status = max(status, commands.StatusFailed)
			}
		}()
	}
	session, err := zkconn.Open(connection)
	if err != nil {
		return fail(err)
	}
	if !opts.Quiet {
		printRemarks(opts.Secured.Remarks)
	}
	guide := tutorial.New(tour)
	defer guide.Close()
	if !opts.NoFence {
		locks.Fence(session, opts.GoOn && !interactive)
	}
	log := undoLog(opts, interactive)
	if sandbox != nil && !sandbox.Joined() {
		log.Ending = sandbox.Addr
	}
	cfg := shell.Config{
		Session: session, Commands: commandTable(log, locks, guide, sandbox), AfterLine: guide.AfterLine,
		Locks: locks, Format: opts.Format, Version: versionText(),
		Streams: streams(opts, interactive), Out: output(os.Stdout), Err: output(os.Stderr), Stdin: os.Stdin,
		Yes: opts.Yes, StopAtError: opts.StopAtError, KeepGoing: opts.GoOn, Quiet: opts.Quiet, Window: linesInFlight,
		Interrupts: interrupts, Pager: os.Getenv("PAGER"), IsOption: app.IsOption, Clusters: opts.Clusters(),
		ManualPager: manualPager(), TraceFile: opts.Trace, NoHints: opts.NoHints, NoBell: opts.NoBell, Sandbox: addr,
	}
	if cfg.Recorder, cfg.Saved, err = recorder(opts, log, interactive); err != nil {
		return fail(err)
	}
	if opts.Server == app.DefaultServer {
		cfg.NoServerHint = "; use --server to specify another server, or --sandbox to work without one"
	}
	if sandbox != nil {
		cfg.Welcome, cfg.Notices, cfg.Loaded = sandbox.Welcome(os.Args[0]), sandbox.Ended(), sandbox.Loaded()
	}
	if interactive && opts.HistoryLines > 0 {
		if err = opts.NoStateDir; err == nil {
			cfg.History, err = history.Open(opts.HistoryFile, opts.HistoryLines)
		}
		if err != nil {
			printError(fmt.Errorf("the history will not be saved: %w", err))
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

// interruptible calls do. A signal in interrupts, like the end of ctx, cancels it. interrupts may be
// nil.
func interruptible(ctx context.Context, interrupts <-chan os.Signal, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { // returns after a signal, or when ctx is cancelled
		defer close(done)
		select {
		case sig := <-interrupts:
			cancel(exit.SignalCause(sig))
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	cancel(nil)
	<-done
	return err
}

// limitMemory sets a soft memory limit of 192 MiB. Near the limit, the garbage collector runs more
// often, so that garbage adds little to the memory that a large reply needs. limitMemory sets no
// limit if GOMEMLIMIT is set, or for a sandbox, whose tree may need more memory.
func limitMemory(sandbox bool) {
	const limit = 192 << 20
	if !sandbox && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// commandTable returns all commands, in groups. It does not include commands such as help and
// history, which package shell defines.
func commandTable(log undo.Log, locks *lockcmd.Table, guide *tutorial.Guide, sandbox *app.Sandbox) [][]*commands.Command {
	return [][]*commands.Command{
		commands.All(), {undo.Command(log)}, transfer.Commands(), locks.Commands(), app.SandboxCommand(sandbox), guide.Commands(),
	}
}

// inactiveCommands returns all commands in a form that cannot be run: they are connected to no
// session, lock or log. Help and completion use them, because they only need their descriptions.
func inactiveCommands() [][]*commands.Command {
	return commandTable(undo.Log{}, lockcmd.New(), tutorial.New(""), nil)
}

// undoLog returns the user's undo log, with the settings that depend on how this process was
// started.
func undoLog(opts app.Options, interactive bool) undo.Log {
	log := undo.Log{Dir: opts.UndoDir, NoDir: opts.NoStateDir, Queue: lockcmd.InQueue}
	if interactive {
		log.By = undo.AtPrompt(tty.Name(os.Stdin))
		return log
	}
	log.By = undo.OnCommandLine(tty.Session(), tty.Name(os.Stderr))
	options := os.Args[1 : len(os.Args)-len(opts.Command)] // the server and credentials, which undo needs too
	log.Again = append(append([]string{"zksh"}, options...), "undo")
	for i, word := range log.Again {
		log.Again[i] = zkconn.HidePassword(word)
	}
	return log
}

// recorder returns the Recorder that records changes for undo, or nil if none is needed:
//
//   - With --undo, the Recorder writes the old states to the given file.
//   - At the prompt, it writes to the undo log.
//   - For a one-shot command whose standard error is a terminal, it writes to the undo log, too.
//     Only then is saved set: it returns a remark about the saved state.
func recorder(
	opts app.Options, log undo.Log, interactive bool,
) (r commands.Recorder, saved func(*commands.Env) string, err error) {
	switch {
	case opts.Undo != "" && interactive:
		return nil, nil, errors.New("--undo works only in scripts; at the prompt, use the undo command")
	case opts.Undo != "":
		r, err = undo.ToFile(opts.Undo, lockcmd.InQueue)
		return r, nil, err
	case interactive:
		return log.Recorder(), nil, nil
	case len(opts.Command) > 0 && tty.Is(os.Stderr):
		own := log.Recorder()
		return own, own.Summary, nil
	}
	return nil, nil, nil
}

// serve runs a sandbox until a signal terminates it, and returns the exit status. Termination by a
// signal is not a failure.
func serve(ctx context.Context, sandbox *app.Sandbox) int {
	if status := printText(sandbox.Serving()); status != commands.StatusOK {
		return status
	}
	<-ctx.Done()
	return commands.StatusOK
}

// signals handles the signals of the process. It returns a context that SIGTERM and SIGHUP cancel.
// In an interactive shell, Ctrl-C and Ctrl-\ concern only the current command, and arrive on the
// returned channel. Otherwise they cancel the context too, and the channel is nil. The returned
// function stops the handling and waits for its goroutine to return.
//
// Three signals are caught until the process exits:
//
//   - SIGPIPE: if the reader of the output has gone, the write fails and zksh can report that.
//   - SIGHUP: a closed window sends it more than once, from the system and from the parent shell. The
//     second one must not interrupt an exit that has begun.
//   - SIGQUIT: otherwise the Go runtime would print the stacks of all goroutines and exit.
func signals(interactive bool) (context.Context, <-chan os.Signal, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	listen := func(sigs ...os.Signal) chan os.Signal {
		c := make(chan os.Signal, 1)
		for _, sig := range sigs {
			if !signal.Ignored(sig) { // under nohup, or in the background of a script, a signal is already ignored
				signal.Notify(c, sig) // unlike signal.Ignore, this does not affect child processes
			}
		}
		return c
	}
	listen(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGQUIT)
	terminations := listen(syscall.SIGTERM, syscall.SIGHUP)
	keys := listen(os.Interrupt, syscall.SIGQUIT)
	cancelling, forCommands := keys, (<-chan os.Signal)(nil)
	if interactive {
		cancelling, forCommands = nil, keys
	}
	done := make(chan struct{})
	go func() { // returns after a signal, or when ctx is cancelled
		defer close(done)
		select {
		case sig := <-terminations:
			cancel(exit.SignalCause(sig))
		case sig := <-cancelling:
			cancel(exit.SignalCause(sig))
		case <-ctx.Done():
		}
		signal.Stop(keys) // a second Ctrl-C terminates the program at once
		time.AfterFunc(repeatGrace, func() { signal.Stop(terminations) })
	}()
	return ctx, forCommands, func() {
		cancel(nil)
		<-done
	}
}

// repeatGrace is the time after the first signal during which another SIGTERM has no effect, so
// that zksh can restore the terminal. A later SIGTERM terminates the program at once.
const repeatGrace = time.Second

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
			printError(fmt.Errorf("cannot turn on escape sequences for the console: %w", err))
		}
	}
	return shell.Output{W: f, TTY: terminal, Plain: os.Getenv("NO_COLOR") != "", Dumb: dumb(), Size: func() (columns, rows int) { return tty.Size(f) }}
}

// dumb reports whether the terminal understands no control sequences, or its type is unknown.
func dumb() bool {
	term := os.Getenv("TERM")
	return term == "dumb" || term == "" && runtime.GOOS != "windows"
}

// manualPager returns the program that shows long help texts and manual pages. It returns the
// value of PAGER if that is set, even to an empty string. Otherwise it returns less, or an empty
// string if less is not installed or the terminal understands no control sequences.
func manualPager() string {
	if pager, set := os.LookupEnv("PAGER"); set {
		return pager
	}
	if _, err := exec.LookPath("less"); err != nil || dumb() {
		return ""
	}
	return "less"
}

// streams returns the standard streams of the programs that commands start. The programs have no
// standard input if the shell reads its command lines from standard input.
func streams(opts app.Options, interactive bool) commands.Streams {
	s := commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if opts.FromStdin() && !interactive {
		s.In = nil
	}
	return s
}

// printError prints an error that occurs before there is a shell to report it. On a terminal, it
// escapes control characters, because the error may quote the command line.
func printError(err error) {
	text := "zksh: " + err.Error()
	if tty.Is(os.Stderr) {
		text = render.Wrap(render.Safe(text), columns(os.Stderr), "")
	}
	fmt.Fprintln(os.Stderr, text)
}

// printRemarks prints what users should know about the options that they chose.
func printRemarks(remarks []string) {
	for _, remark := range remarks {
		printError(errors.New(remark))
	}
}

// columns returns the width of a terminal, or 0 if f is not a terminal.
func columns(f *os.File) int {
	columns, _ := tty.Size(f)
	return columns
}

// fail prints an error and returns its exit status.
func fail(err error) int {
	printError(err)
	return exit.Status(err)
}

// printText prints a text on standard output and returns the exit status.
func printText(text string) int {
	_, err := io.WriteString(os.Stdout, text)
	switch {
	case peer.Unread(err): // the reader has gone, but SIGPIPE has not terminated zksh
		return commands.StatusBrokenPipe
	case err != nil:
		return fail(err)
	}
	return commands.StatusOK
}
