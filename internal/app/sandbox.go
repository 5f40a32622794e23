package app

import (
	"context"
	"errors"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/playground"
	"github.com/zksh/zksh/internal/render"
)

// SandboxCommand returns the sandbox command. If the shell does not use a sandbox, place is nil, and
// the command returns an error.
func SandboxCommand(place *playground.Place) []*commands.Command {
	return []*commands.Command{{
		Name: "sandbox", Group: "Sandbox", Effect: commands.Offline, Args: "pause|resume",
		Summary: "disconnect all clients of the sandbox, or let them reconnect",
		Help: playground.Notice +
			" zksh --sandbox starts a sandbox, or joins the one that runs in another terminal. With --listen " +
			"127.0.0.1:2181, zksh only serves the sandbox, for any client.\n\n" +
			"sandbox pause causes connection loss. It also causes sessions to expire if the pause is longer than " +
			"their timeout, because their clocks keep running.",
		Examples: []string{"sandbox pause", "sandbox resume"},
		Params:   []commands.Param{{Name: "pause|resume", Kind: commands.Choice, Words: []string{"pause", "resume"}}},
		Flags: commands.NoFlags(func(_ context.Context, env *commands.Env, args []string) error {
			if place == nil {
				return errors.New("this shell is not connected to a sandbox; to start one, run: zksh --sandbox")
			}
			word := strings.ToLower(args[0])
			if err := place.Pause(word == "pause"); err != nil {
				return err
			}
			return env.Screen.Print(render.Answer{Words: "sandbox " + word + "d\n",
				JSON: render.Facts{"sandbox", word + "d"}})
		}),
	}}
}

// Serving returns the message that zksh prints if it only serves a sandbox (option --listen).
func Serving(place *playground.Place) string {
	return "serving the sandbox" + place.VersionSuffix() + " on " + place.Addr + "; press Ctrl-C to stop it\n" +
		playground.Notice + "\n"
}

// Welcome returns the part of the shell's banner that describes the sandbox. program is the
// name with which zksh was started.
func Welcome(place *playground.Place, program string) string {
	if place.Joined() {
		return "You joined the sandbox of another terminal" + place.VersionSuffix() + ".\n" + playground.Notice + "\n"
	}
	text := playground.Notice + "\n"
	if as := place.VersionSuffix(); as != "" {
		text += "This is a sandbox" + as + ". "
	}
	if place.Joinable() {
		text += "To join it from another terminal, run " + render.Safe(program) + " --sandbox. "
	}
	return text + "For a guided tour, type tutorial.\n"
}
