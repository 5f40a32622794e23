// Zksh is a ZooKeeper shell: zkCli's commands by hand, in pipes and one at a time.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/playground"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/shell"
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
	opts, err := app.ParseOptions(os.Args[1:], environment())
	if err != nil {
		return refuse(err)
	}
	switch {
	case opts.ShowHelp:
		return show(app.Help())
	case opts.ShowVersion:
		return show("zksh " + versionText() + "\n")
	}

	in, name, err := input(opts)
	if err != nil {
		return refuse(err)
	}
	defer in.Close()
	interactive := len(opts.Command) == 0 && len(opts.Lines) == 0 && !opts.HasFile && tty.Is(os.Stdin) && tty.Is(os.Stdout)

	ctx, interrupts, stop := signals(interactive)
	defer stop()
	var place *playground.Place
	if opts.Sandbox {
		if place, err = playground.Open(opts.SandboxDir, opts.Listen, opts.As); err != nil {
			return refuse(err)
		}
		defer place.Close()
		if opts.Listen != "" {
			return serve(ctx, place)
		}
		opts.Server = place.Addr
	}
	session, err := zkconn.Open(opts.Connection())
	if err != nil {
		return refuse(err)
	}
	if !opts.Quiet {
		for _, remark := range opts.Secured.Remarks {
			complain(errors.New(remark))
		}
	}
	locks := lockcmd.New()
	if !opts.NoFence {
		locks.Fence(session, opts.GoOn && !interactive)
	}
	cfg := shell.Config{
		Session: session, Commands: [][]*commands.Command{commands.All(), locks.Commands(), app.SandboxCommand(place)},
		Locks: locks, Format: opts.Format, Version: versionText(),
		Streams: streams(opts, interactive), Out: output(os.Stdout), Err: output(os.Stderr), Stdin: os.Stdin,
		StopAtError: opts.StopAtError, GoOn: opts.GoOn, Quiet: opts.Quiet, Verbose: opts.Verbose, Window: opts.Window, Interrupts: interrupts,
		Pager: os.Getenv("PAGER"), IsOption: app.IsOption, Clusters: opts.Clusters(), Yes: opts.Yes, Topics: map[string]string{"config": app.ConfigHelp()},
	}
	if place != nil {
		cfg.Welcome, cfg.Notices = welcome(place), place.Ended()
	}
	if interactive && opts.HistoryFile != "" && opts.HistoryLines > 0 {
		if cfg.History, err = history.Open(opts.HistoryFile, opts.HistoryLines); err != nil {
			complain(fmt.Errorf("no history is kept: %w", err))
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

// serve keeps a sandbox up until a signal ends it, which is its proper end.
func serve(ctx context.Context, place *playground.Place) int {
	if status := show("serving the sandbox" + place.Unusual() + " on " + place.Addr + "; Ctrl-C ends it\n" + playground.Notice + "\n"); status != commands.StatusOK {
		return status
	}
	<-ctx.Done()
	return commands.StatusOK
}

func welcome(place *playground.Place) string {
	if place.Joined() {
		return "You joined the sandbox of another terminal" + place.Unusual() + ".\n" + playground.Notice + "\n"
	}
	if as := place.Unusual(); as != "" {
		return playground.Notice + "\nIt is one" + as + ". Open a second terminal with zksh --sandbox to join.\n"
	}
	return playground.Notice + "\nOpen a second terminal with zksh --sandbox to join.\n"
}

// input is where commands come from when they are neither on the command line
// nor typed, with the name error messages give it.
func input(opts app.Options) (io.ReadCloser, string, error) {
	if len(opts.Lines) > 0 {
		return io.NopCloser(strings.NewReader(strings.Join(opts.Lines, "\n"))), "-c", nil
	}
	if !opts.HasFile || opts.File == "-" {
		return io.NopCloser(os.Stdin), "stdin", nil
	}
	f, err := os.Open(opts.File)
	return f, opts.File, err
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
			cancel(shell.EndedBy(sig))
		case sig := <-ending:
			cancel(shell.EndedBy(sig))
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

func environment() app.Environment {
	env := app.Environment{Getenv: os.Getenv}
	if dir, err := os.UserConfigDir(); err == nil {
		env.ConfigDir = dir
	}
	env.StateDir = os.Getenv("XDG_STATE_HOME")
	if home, err := os.UserHomeDir(); env.StateDir == "" && err == nil {
		env.StateDir = filepath.Join(home, ".local", "state")
	}
	return env
}

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
	return shell.Output{W: f, TTY: tty.Is(f), Size: func() (columns, rows int) { return tty.Size(f) }}
}

// streams are for programs that commands start. They get no standard input where
// the shell's own lines come from it.
func streams(opts app.Options, interactive bool) commands.Streams {
	s := commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if len(opts.Command) == 0 && len(opts.Lines) == 0 && !interactive && (!opts.HasFile || opts.File == "-") {
		s.In = nil
	}
	return s
}

// complain prints what goes wrong before there is a shell to report it. Its words may
// be those of the command line.
func complain(err error) {
	text := err.Error()
	if tty.Is(os.Stderr) {
		text = render.Safe(text)
	}
	fmt.Fprintln(os.Stderr, "zksh:", text)
}

func refuse(err error) int {
	complain(err)
	return shell.Status(err)
}

func show(text string) int {
	if _, err := io.WriteString(os.Stdout, text); err != nil {
		return refuse(err)
	}
	return commands.StatusOK
}
