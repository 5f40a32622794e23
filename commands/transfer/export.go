package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var exportCommand = &commands.Command{
	Name: "export", Group: "Trees", Args: "[-s] [-w] [-R] path [file]",
	Summary: "write a znode's data or a subtree to a file",
	Help: "Without -R, export writes the data of one znode, byte for byte. With -R, export writes the entire subtree " +
		"(data, ACLs, kinds and stats) in a format that import -R can read. If the name of the file ends in .gz, the " +
		"output is compressed with gzip. Without a file, or with -, export writes to standard output.\n\n" +
		"export writes to a temporary file, and renames it when it is complete. A new file is readable only by you. " +
		"If export cannot read a znode, it lists the znode and exports everything else.\n\n" +
		"The format is lines of JSON, with a checksum at the end.",
	Limits: []string{
		"The znodes are not all from the same moment: each is saved as it was when export read it. The export records the " +
			"zxids at its start and at its end.",
		"/zookeeper is left out, unless the path is inside it.",
	},
	Examples: []string{"export -R /app app.json.gz", "export /app/config config.json"},
	Params:   []commands.Param{{Name: "path", Kind: commands.Path}, {Name: "file", Kind: commands.File, Optional: true}},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		stat := fs.BoolP("stat", "s", false, "also print the znode's stat")
		watch := fs.BoolP("watch", "w", false, "set a watch on the data")
		recurse := fs.BoolP("recursive", "R", false, "write the entire subtree")
		return func(ctx context.Context, env *commands.Env, args []string) error {
			root, file := args[0], "-"
			if len(args) > 1 && !userfile.IsStdout(args[1]) {
				file = args[1]
			}
			if !strings.HasPrefix(root, "/") && strings.HasPrefix(file, "/") {
				return commands.Misuse("%s is not a path; write the path of the znode first, then the file", root)
			}
			if !*recurse {
				return exportOne(ctx, env, root, file, *stat, *watch)
			}
			if *stat || *watch {
				return commands.Misuse("-s and -w cannot be combined with -R")
			}
			if file == "-" && env.Format == render.JSON { // the dump would break the JSON output
				return commands.Misuse("with -o json, export -R cannot write to standard output; specify a file")
			}
			return exportTree(ctx, env, root, file)
		}
	},
}

// exportOne writes the data of one znode to a file.
func exportOne(ctx context.Context, env *commands.Env, path, file string, stat, watch bool) error {
	node, err := zkconn.Do(ctx, env.Session, zkconn.GetData(path).Watch(watch))
	if err != nil {
		return err
	}
	a := render.Answer{JSON: render.Facts{"done", "export", "path", path, "file", file, "bytes", len(node.Data)}}
	if stat {
		a.Stat = (*render.Stat)(node.Stat)
		a.JSON = append(a.JSON.(render.Facts), "stat", a.Stat)
	}
	if file == "-" {
		a.Words, a.JSON = string(node.Data), render.Data(node.Data)
	} else if err := commands.SaveFile(file, node.Data); err != nil {
		return err
	}
	return env.Screen.Print(a)
}

// exportTree writes a subtree to a file, as a dump.
func exportTree(ctx context.Context, env *commands.Env, path, file string) (err error) {
	x := &exporter{env: env, root: path, unread: zktree.UnreadError{Root: path}}
	h := dump.Header{Root: path, Server: env.Session.Servers().Spec, Time: time.Now(), LeftOut: x.leftOut()}
	if h.Zxid, err = zkconn.Do(ctx, env.Session, zkconn.Zxid()); err != nil {
		return err
	}
	if file == "-" {
		return errors.Join(env.Screen.Print(&stdoutDump{func(w io.Writer) error {
			return x.write(ctx, nil, func() (*dump.Writer, error) { return dump.NewWriter(w, h) })
		}}), x.endError())
	}
	update, end := env.Screen.Progress("exported")
	err = x.write(ctx, update, func() (*dump.Writer, error) { return dump.Create(file, h) })
	end()
	if err != nil {
		return err
	}
	env.Screen.Note(fmt.Sprintf("wrote %s of %s to %s", zktree.Znodes(x.written), path, file))
	facts := render.Facts{"done", "export", "path", path, "file", file, "znodes", x.written}
	return errors.Join(env.Screen.Print(render.Answer{JSON: facts}), x.endError())
}

// exporter is one run of export -R.
type exporter struct {
	env     *commands.Env
	root    string
	written int                // number of znodes written
	unread  zktree.UnreadError // znodes that could not be read
	masked  int                // number of written znodes whose password hashes the server hides
}

// leftOut returns the roots of the subtrees that the export skips on purpose.
func (x *exporter) leftOut() []string {
	var out []string
	if x.env.Session.ServerPath(x.root) == "/" {
		out = append(out, reserved)
	}
	return out
}

// write writes the subtree. After it has read the root, it calls create to create the file.
func (x *exporter) write(ctx context.Context, update zktree.Progress, create func() (*dump.Writer, error)) (err error) {
	var w *dump.Writer
	defer func() {
		if err != nil && w != nil {
			err = errors.Join(err, w.Abort())
		}
	}()
	for z, err := range x.withParents(zktree.ServerTree(ctx, x.env.Session.Client, x.root, update).Nodes) {
		if err != nil {
			return err
		}
		if w == nil {
			if w, err = create(); err != nil {
				return err
			}
		}
		if err := w.Write(z); err != nil {
			return err
		}
		x.written++
		if slices.ContainsFunc(z.ACL, zkconn.Masked) {
			x.masked++
		}
	}
	if w == nil {
		return x.endError()
	}
	zxid, err := zkconn.Do(ctx, x.env.Session, zkconn.Zxid())
	if err != nil {
		return err
	}
	t := dump.Trailer{Zxid: zxid, Missed: x.unread.N}
	for _, refusal := range x.unread.First {
		t.Unread = append(t.Unread, refusal.Error())
	}
	last := w
	w = nil // Abort is not needed: if Close fails, it removes the file itself
	return last.Close(t)
}

// endError returns an error if a znode could not be read, or if the server hid a password hash in
// its ACL.
func (x *exporter) endError() error {
	errs := []error{x.unread.OrNil()}
	if x.masked > 0 {
		errs = append(errs, fmt.Errorf("the server hides the password hashes in the ACLs of %s, so import cannot create these znodes or their descendants; run addauth as a user with admin permission, then repeat the export",
			zktree.Znodes(x.masked)))
	}
	return errors.Join(errs...)
}

// withParents yields a znode only if its parent has been yielded, too. It skips a znode whose
// parent was skipped, or whose parent was deleted and created again during the export.
func (x *exporter) withParents(nodes iter.Seq2[*dump.Znode, error]) iter.Seq2[*dump.Znode, error] {
	return func(yield func(*dump.Znode, error) bool) {
		var way []string // path of the last yielded znode, preceded by the paths of its ancestors
		for z, err := range nodes {
			if z == nil {
				yield(nil, err)
				return
			}
			for len(way) > 0 && !dump.Within(z.Path, way[len(way)-1]) {
				way = way[:len(way)-1]
			}
			switch {
			case err != nil:
				x.unread.Add(err)
			case z.Path != x.root && (len(way) == 0 || way[len(way)-1] != dump.Parent(z.Path)):
			case z.Path != x.root && x.env.Session.ServerPath(z.Path) == reserved:
			default:
				way = append(way, z.Path)
				if !yield(z, nil) {
					return
				}
			}
		}
	}
}

// stdoutDump is the result of an export that writes its dump to standard output.
type stdoutDump struct {
	write func(w io.Writer) error
}

// Text writes the dump to w.
func (s *stdoutDump) Text(w io.Writer) error { return s.write(w) }
