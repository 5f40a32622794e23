package commands

import (
	"context"

	"github.com/zksh/zksh/internal/render"
)

var versionCommand = &Command{
	Name: "version", Group: "Session", Effect: Offline, Args: "",
	Summary:  "print the version of zksh",
	Examples: []string{"version"},
	Flags: NoFlags(func(_ context.Context, env *Env, _ []string) error {
		return env.Screen.Print(render.Answer{
			Words: "zksh version: " + env.Version + "\n", JSON: render.Facts{"version", env.Version}})
	}),
}
