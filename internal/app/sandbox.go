package app

import (
	"context"
	"errors"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/playground"
	"github.com/zksh/zksh/internal/render"
)

// SandboxCommand is the command sandbox. place is nil in a shell that has none.
func SandboxCommand(place *playground.Place) []*commands.Command {
	return []*commands.Command{{
		Name: "sandbox", Group: "Sandbox", Args: "pause|resume",
		Summary: "cut everybody off from the sandbox, or let them back",
		Help: strings.ReplaceAll(playground.Notice, "\n", " ") + " zksh --sandbox starts one, or joins the one another terminal runs;" +
			" with -listen 127.0.0.1:2181 it only serves, for any client. A pause shows connection loss, and, when it is" +
			" longer than the session timeout, expiry: the sessions' clocks go on.",
		Example: "sandbox pause",
		Params:  []commands.Param{{Name: "pause|resume", Kind: commands.Choice, Words: []string{"pause", "resume"}}},
		Offline: true,
		Flags: commands.NoFlags(func(_ context.Context, env *commands.Env, args []string) error {
			if place == nil {
				return errors.New("there is no sandbox here; zksh --sandbox starts one")
			}
			word := strings.ToLower(args[0])
			if err := place.Pause(word == "pause"); err != nil {
				return err
			}
			return env.Screen.Print(render.Answer{Words: "sandbox " + word + "d\n", JSON: render.Facts{"sandbox", word + "d"}})
		}),
	}}
}
