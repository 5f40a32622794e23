package commands

import (
	"context"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

var syncCommand = &Command{
	Name: "sync", Group: "Session", Effect: OneRequest, Args: "path",
	Summary:  "wait until the server has caught up with the leader",
	Examples: []string{"sync /", "sync /app"},
	Params:   []Param{pathParam},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		return env.answer(zkconn.Exec(ctx, env.Session, zkconn.Sync(args[0])), render.Answer{Words: "Sync is OK\n", JSON: done("sync", args[0])})
	}),
}
