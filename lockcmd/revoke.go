package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

func (t *Table) revokeCommand() *commands.Command {
	return &commands.Command{
		Name: "revoke", Group: group, Effect: commands.Writes, Args: "path [node]",
		Summary: "ask the holder of a lock to release it",
		Help: "revoke writes a request into the data of the holder's znode, or of NODE if you specify one. The request " +
			"asks the holder to release the lock.\n\n" +
			"If the holder is zksh, its user sees who made the request. If the lock was acquired with --revocable, " +
			"zksh also releases the lock automatically. If the holder uses Curator and made the lock revocable, " +
			"Curator calls the holder's revocation listener. Other clients ignore the request.",
		Examples: []string{"revoke /locks/backup", "revoke /locks/backup _c_1b7a6e8c-0a53-4a2e-9d0f-6a1c1f3f2b11-lock-0000000000"},
		Params:   []commands.Param{{Name: "path"}, {Name: "node", Kind: commands.Data, Optional: true}},
		Flags:    commands.NoFlags(revoke),
	}
}

func revoke(ctx context.Context, env *commands.Env, args []string) error {
	dir := args[0]
	q, err := queue.Read(ctx, ensemble{env.Session}, dir)
	if err != nil {
		return err
	}
	if err := checkKnown(q); err != nil {
		return err
	}
	which := q.Holders()
	if len(args) > 1 {
		which = args[1:]
	}
	switch len(which) {
	case 0:
		return fmt.Errorf("no client holds the lock %s", dir)
	case 1:
	default:
		return fmt.Errorf("the lock %s has several holders; specify one of them: %s", dir, strings.Join(which, ", "))
	}
	node, err := q.Find(which[0])
	if err != nil {
		return err
	}
	if c := q.Contender(path.Base(node)); c != nil && c.Persistent && c.Owner != "" {
		return fmt.Errorf("the lock %s belongs to the owner %s, and no process would read the request; to release the lock, run: unlock --owner %s %s",
			dir, c.Owner, commands.Quote(c.Owner), dir)
	}
	return requestRelease(ctx, env, node)
}

// checkKnown returns an error if q is a lock of an unknown recipe.
func checkKnown(q *queue.Queue) error {
	i := slices.IndexFunc(q.Contenders, func(c *queue.Contender) bool { return !c.Known() })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%s is not a lock of a recipe that zksh knows, so only its own client can release it; "+
		"to remove the znode, run: delete %s", q.Path, commands.Quote(q.Contenders[i].ZnodePath()))
}

// requestRelease asks the owner of the znode node to release its lock, by writing a request into
// the znode's data. The write fails if the data changes meanwhile. The fence does not apply to
// this write, because a user who has lost a lock may need it to get the lock again. The write
// alone does not release the lock.
func requestRelease(ctx context.Context, env *commands.Env, node string) error {
	n, err := zkconn.Do(ctx, env.Session, zkconn.GetData(node))
	if err != nil {
		return err
	}
	message, err := queue.Revoke(n.Data)
	if err != nil {
		return err
	}
	if err := zkconn.Exec(ctx, env.Session.Unfenced(), zkconn.SetData(node, message, n.Stat.Version)); err != nil {
		if errors.Is(err, zkconn.BadVersion) {
			return fmt.Errorf("another client changed %s before zksh could write to it; try again", node)
		}
		return err
	}
	return env.Screen.Print(nodeAnswer("asked for the release of", "asked", node, queue.Who(n.Data)))
}

// nodeAnswer returns the answer of revoke and unlock --force. action describes the completed
// action, node is the znode, and who describes the client that owns the znode. key is the name of
// the JSON field that contains node.
func nodeAnswer(action, key, node, who string) render.Answer {
	words := action + " " + node
	if who != "" {
		words += " (" + who + ")"
	}
	return render.Answer{Words: words + "\n", JSON: render.Facts{key, node, "who", who}}
}
