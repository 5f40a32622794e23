package lockcmd

import (
	"context"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

const wholeHelp = "With -R, locks shows all queues below the path, of any client, the longest wait first. It finds them with a single " +
	"request to a server (the four-letter command dump) if the server allows this, and otherwise by walking the tree. It " +
	"also names possible deadlocks, which are sessions that wait for each other, and prints the command that resolves each."

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
	if err := show(env, s); err != nil {
		return err
	}
	for _, d := range s.Deadlocks { // not as notes, which zksh -q suppresses
		env.Screen.Alert(d.String())
	}
	return nil
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
