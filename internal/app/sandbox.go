package app

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/playground"
	"github.com/zksh/zksh/internal/render"
)

// A Sandbox is the sandbox that a shell runs or has joined.
type Sandbox struct {
	*playground.Place
	contents *contents // contents of the file in the sandbox, or nil if there is no file
}

// OpenSandbox runs or joins the sandbox that the options specify, and stores its address as the
// server. With --load, it first reads the file.
func (o *Options) OpenSandbox(ctx context.Context) (s *Sandbox, err error) {
	if o.Load != "" {
		s, err = o.loadSandbox(ctx)
	} else {
		s = &Sandbox{}
		s.Place, err = playground.Open(o.SandboxDir, o.Listen, o.As, len(o.Command) > 0)
	}
	if err != nil {
		return nil, err
	}
	o.Server = s.Addr
	return s, nil
}

// SandboxCommand returns the sandbox command. If the shell does not use a sandbox, s is nil, and the
// command returns an error.
func SandboxCommand(s *Sandbox) []*commands.Command {
	return []*commands.Command{{
		Name: "sandbox", Group: "Sandbox", Effect: commands.Offline, Args: "[pause|resume]",
		Summary: "describe the sandbox, or disconnect its clients for a while",
		Help: playground.Notice +
			" zksh --sandbox starts a sandbox, or joins the one that runs in another terminal. With --listen " +
			"127.0.0.1:2181, zksh only serves the sandbox, for any client. With --load FILE, the sandbox contains the " +
			"znodes of a ZooKeeper snapshot or of an export, and no other terminal can join it.\n\n" +
			"Without an argument, sandbox prints the address, the version, and what the sandbox contains.\n\n" +
			"sandbox pause causes connection loss. It also causes sessions to expire if the pause is longer than their " +
			"timeout, because their clocks keep running.",
		Examples: []string{"sandbox", "sandbox pause", "sandbox resume"},
		Params: []commands.Param{
			{Name: "pause|resume", Kind: commands.Choice, Words: []string{"pause", "resume"}, Optional: true},
		},
		Flags: commands.NoFlags(func(_ context.Context, env *commands.Env, args []string) error {
			if s == nil {
				return errors.New("this shell is not connected to a sandbox; to start one, run: zksh --sandbox")
			}
			if len(args) == 0 {
				facts := s.facts()
				return env.Screen.Print(render.Answer{Words: facts.Text(), JSON: facts})
			}
			word := strings.ToLower(args[0])
			if err := s.Pause(word == "pause"); err != nil {
				return err
			}
			return env.Screen.Print(render.Answer{Words: "sandbox " + word + "d\n",
				JSON: render.Facts{"sandbox", word + "d"}})
		}),
	}}
}

// facts returns what the command sandbox prints without an argument.
func (s *Sandbox) facts() render.Facts {
	facts := render.Facts{"address", s.Addr, "version", string(s.Version())}
	if s.contents != nil {
		facts = append(facts, s.contents.facts()...)
	}
	return facts
}

// Loaded returns the name of the file in the sandbox, for the prompt. It is empty if the sandbox does
// not contain a file.
func (s *Sandbox) Loaded() string {
	if s.contents == nil {
		return ""
	}
	return filepath.Base(s.contents.file)
}

// Remarks returns what the user should know about the file in the sandbox.
func (s *Sandbox) Remarks() []string {
	if s.contents == nil {
		return nil
	}
	return s.contents.remarks()
}

// Serving returns the message that zksh prints if it only serves a sandbox (option --listen).
func (s *Sandbox) Serving() string {
	what := "the sandbox"
	if s.contents != nil {
		what = s.contents.String() + " in a sandbox"
	}
	what += s.VersionSuffix() + " on " + s.Addr
	return "serving " + what + "; press Ctrl-C to stop it\n" + playground.Notice + "\n"
}

// Welcome returns the part of the shell's banner that describes the sandbox. program is the
// name with which zksh was started.
func (s *Sandbox) Welcome(program string) string {
	if s.Joined() {
		return "You joined the sandbox of another terminal" + s.VersionSuffix() + ".\n" + playground.Notice + "\n"
	}
	if s.contents != nil {
		return "This sandbox" + s.VersionSuffix() + " contains " + s.contents.String() + ".\n" +
			"You are its superuser, whom no ACL restricts. " +
			"Your changes are lost when this shell exits; the file stays as it is.\n"
	}
	text := playground.Notice + "\n"
	if as := s.VersionSuffix(); as != "" {
		text += "This is a sandbox" + as + ". "
	}
	if s.Joinable() {
		text += "To join it from another terminal, run " + render.Safe(program) + " --sandbox. "
	}
	return text + "For a guided tour, type tutorial.\n"
}
