package lockcmd

import (
	"context"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/queue"
)

// showQueue is the answer of locks PATH: who holds the lock and who waits. The
// error is a StatusError without a text if there is anybody.
func showQueue(ctx context.Context, env *commands.Env, path string) error {
	q, err := queue.Look(ctx, ensemble{env.Session}, path)
	if err != nil {
		return err
	}
	if err := env.Screen.Print(q); err != nil {
		return err
	}
	for _, remark := range q.Remarks() {
		env.Screen.Note(remark)
	}
	return status(q)
}

// probe is showQueue for a script that only wants the status.
func probe(ctx context.Context, env *commands.Env, path string) error {
	q, err := queue.Read(ctx, ensemble{env.Session}, path)
	if err != nil {
		return err
	}
	return status(q)
}

func status(q *queue.Queue) error {
	if q.Free() {
		return nil
	}
	return &commands.StatusError{Status: commands.StatusNotLocked}
}
