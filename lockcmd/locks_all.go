package lockcmd

import (
	"context"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

const wholeHelp = "With -R, locks shows all queues below the path, of any client, the longest wait first. It finds them with a single " +
	"request to a server (the four-letter command dump) if the server allows this, and otherwise by walking the tree.\n\n" +
	"With --deadlocks, locks searches all queues for sessions that wait for each other, a session that is in a queue " +
	"twice, a reader that wants to write, a waiter that does not watch any contender, a holder without a connection, " +
	"recipes that ignore each other, and orphans: ephemeral znodes whose session no longer exists. It reports a finding only after seeing it twice, 2 s apart, and prints the command " +
	"that resolves it. The exit status is 1 if there is a finding, and 0 if there is none."

// rootOf returns the path argument of a command that searches a subtree, or / if there is no
// argument.
func rootOf(args []string) string {
	if len(args) == 0 {
		return "/"
	}
	return args[0]
}

// showAll runs the command locks -R, which shows all queues below root.
func showAll(ctx context.Context, env *commands.Env, root string) error {
	if err := zkconn.ValidatePath(root, false); err != nil {
		return err
	}
	s, err := queue.LookAll(ctx, ensemble{env.Session}, root)
	if err != nil {
		return err
	}
	return show(env, s)
}

// show prints the value v, followed by its remarks as notes.
func show(env *commands.Env, v interface {
	render.Value
	Remarks() []string
}) error {
	if err := env.Screen.Print(v); err != nil {
		return err
	}
	for _, remark := range v.Remarks() {
		env.Screen.Note(remark)
	}
	return nil
}

// showDeadlocks runs the command locks --deadlocks, which searches all queues below root.
func showDeadlocks(ctx context.Context, env *commands.Env, root string) error {
	if err := zkconn.ValidatePath(root, false); err != nil {
		return err
	}
	d, err := queue.FindDeadlocks(ctx, ensemble{env.Session}, root)
	if err != nil {
		return err
	}
	if err := env.Screen.Print(d); err != nil {
		return err
	}
	noteMissing(env, d.NotTold)
	if len(d.Findings) > 0 {
		return &commands.StatusError{Status: commands.StatusFailed}
	}
	return nil
}
