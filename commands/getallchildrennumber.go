package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var getAllChildrenNumberCommand = &Command{
	Name: "getAllChildrenNumber", Group: "Trees", Args: "path",
	Summary:  "count all znodes below a znode",
	Help:     "Servers before version 3.6 do not support this request, so zksh walks the subtree instead.",
	Limits:   []string{"On servers before version 3.6, znodes below an unreadable znode are not counted."},
	Examples: []string{"getAllChildrenNumber /app", "getAllChildrenNumber /"},
	Params:   []Param{hereParam},
	Flags: func(fs *pflag.FlagSet) Run {
		return func(ctx context.Context, env *Env, args []string) error {
			n, err := countBelow(ctx, env, args[0])
			return env.answer(err, render.Answer{Words: fmt.Sprintln(n), JSON: render.Facts{"path", args[0], "count", n}})
		}
	},
}

// countBelow returns the number of znodes below a path. It asks the server to count them if the
// server is known to support that request; an older server would close the connection. Otherwise,
// countBelow walks the subtree.
func countBelow(ctx context.Context, env *Env, path string) (int, error) {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return 0, err
	}
	p, err := env.Session.Pipe(ctx, path)
	if err != nil {
		return 0, err
	}
	if p.HasMultiRead(ctx) { // almost all servers that support multi-reads also support getAllChildrenNumber
		n, err := zkconn.Do(ctx, env.Session, zkconn.GetAllChildrenNumber(path))
		if !errors.Is(err, zkconn.Unimplemented) {
			return n, err
		}
	}
	s, err := surveyOf(ctx, env, path, zktree.Options{Shut: true})
	if err != nil {
		return 0, err
	}
	n := -1 // do not count the root
	for range s.each("counted") {
		n++
	}
	if s.err != nil {
		return 0, s.err
	}
	if s.unread.N > 0 {
		env.Screen.Note(fmt.Sprintf("no permission to read %s below %s; descendants of unreadable znodes are not counted", zktree.Znodes(s.unread.N), path))
	}
	return n, nil
}
