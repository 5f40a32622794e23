package lockcmd

import (
	"context"
	"errors"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

// maxReadingShare limits the load of locks -f -R on the servers: between two readings, it waits for
// at least this multiple of the time that a reading takes.
const maxReadingShare = 10

// followAll shows all queues below root and their changes until ctx ends. It reads them once per
// second, or less often if that takes long. It continues after reconnects and in new sessions.
func followAll(ctx context.Context, env *commands.Env, root string) error {
	if err := zkconn.ValidatePath(root, false); err != nil {
		return err
	}
	live := env.Screen.Region(commands.Answers)
	f := queue.FollowAll(ensemble{env.Session}, root)
	for {
		begun := time.Now()
		err := showAllChanges(ctx, env, live, f)
		pause := max(redrawEvery, maxReadingShare*time.Since(begun))
		if err == nil {
			err = queue.Pause(ctx, pause)
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), live.Close(true))
		}
		if err != nil {
			return errors.Join(err, live.Close(true))
		}
	}
}

// showAllChanges reads all queues, and shows them on a terminal, or prints the changes elsewhere.
// Without a connection, it shows the last known state.
func showAllChanges(ctx context.Context, env *commands.Env, live commands.Region, f *queue.AllFollower) error {
	var changes []queue.Change
	var err error
	connected := env.Session.State() != zkconn.StateConnecting
	if connected {
		changes, err = f.Update(ctx)
	}
	if errors.Is(err, zkconn.ConnectionLoss) || errors.Is(err, zkconn.SessionExpired) {
		connected, err = false, nil
	}
	if err != nil {
		return err
	}
	if columns, rows := live.Size(); columns > 0 {
		return live.Paint(withTime(f.Picture(columns, rows, connected))...)
	}
	for _, c := range changes {
		if err := env.Screen.Print(c); err != nil {
			return err
		}
	}
	return nil
}
