package shell

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// folder is the znode where relative paths begin, once somebody has gone to one by
// cd. Until then there are none. Another ensemble, or chroot, has folders of its own.
type folder struct {
	servers func() string // the connect string

	mu           sync.Mutex // guards these; the prompt and the completions ask at any time
	of           string     // the connect string that these belong to
	path, before string     // empty: nobody has gone anywhere
}

// here is the folder, and whether somebody has gone there.
func (f *folder) here() (path string, moved bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" && f.of != f.servers() {
		f.path, f.before = "", ""
	}
	if f.path == "" {
		return "/", false
	}
	return f.path, true
}

// last is the folder before this one, or empty.
func (f *folder) last() string {
	if _, moved := f.here(); !moved {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.before
}

func (f *folder) move(to string) {
	from, _ := f.here()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of, f.path, f.before = f.servers(), to, from
}

// resolve makes a relative path absolute. Any other one stays as it is, and so does
// every one before somebody has gone anywhere: it is refused as it was typed.
func (f *folder) resolve(path string) string {
	if here, moved := f.here(); moved {
		return below(here, path)
	}
	return path
}

// below is where a path leads to from a folder: ~ is the root, .. is the znode above.
// What is wrong with the path otherwise is left to be refused.
func below(at, rel string) string {
	if rel == "" || rel[0] == '/' {
		return rel
	}
	if rest, ok := strings.CutPrefix(rel, "~/"); ok || rel == "~" {
		at, rel = "/", strings.TrimPrefix(rest, "~")
	}
	stepped := false // the part before was a step, and no name
	for part := range strings.SplitSeq(rel, "/") {
		switch {
		case part == "..":
			at = path.Dir(at)
		case part == ".", part == "" && stepped:
		case at == "/":
			at += part
		default:
			at += "/" + part
		}
		stepped = part == "." || part == ".."
	}
	return at
}

// folderCommands are those that go from folder to folder.
func (s *Shell) folderCommands() []*commands.Command {
	const group = "Shell"
	return []*commands.Command{
		{
			Name: "cd", Group: group, Args: "[path]",
			Summary: "change the current znode, where relative paths start",
			Help: "Without a path, cd goes to /. In a path, .. is the parent znode and ~ is /. To return to the previous " +
				"znode, use cd -.\n\n" +
				"Some commands use the current znode if you omit their path: ls, tree, find, du, stat and " +
				"getAllChildrenNumber.",
			Limits:   []string{"Like zkCli, zksh rejects relative paths until you use cd, and again after you connect to other servers."},
			Examples: []string{"cd /app", "cd ../archive", "cd -"},
			Params:   []commands.Param{{Name: "path", Kind: commands.Folder, Optional: true}},
			Flags:    commands.NoFlags(s.cd),
		},
		{
			Name: "pwd", Group: group, Effect: commands.Offline,
			Summary:  "print the current znode, where relative paths start",
			Examples: []string{"pwd"},
			Flags: commands.NoFlags(func(_ context.Context, env *commands.Env, _ []string) error {
				here, _ := s.folder.here()
				return env.Screen.Print(render.Answer{Words: here + "\n", JSON: render.Facts{"path", here}})
			}),
		},
	}
}

func (s *Shell) cd(ctx context.Context, env *commands.Env, args []string) error {
	here, _ := s.folder.here()
	to := strings.Join(args, "") // one word, or none
	switch to {
	case "":
		to = "/"
	case "-":
		if to = s.folder.last(); to == "" {
			return errors.New("there is no previous znode to return to")
		}
	default:
		if to = below(here, to); len(to) > 1 {
			to = strings.TrimSuffix(to, "/") // as completion leaves it
		}
	}
	if err := zkconn.Exec(ctx, env.Session, zkconn.Exists(to)); err != nil {
		return err
	}
	s.folder.move(to)
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "cd", "path", to}})
}
