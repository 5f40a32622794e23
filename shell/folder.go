package shell

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// folder holds the current folder, the znode to which relative paths refer. Relative paths are
// invalid before the first cd, and again after a connect to another ensemble or chroot.
type folder struct {
	servers func() string // returns the current connect string

	mu           sync.Mutex // guards the fields below; the prompt and the completer read them at any time
	servedBy     string     // connect string of the ensemble to which path and before belong
	path, before string     // current and previous folder; empty before the first cd
}

// here returns the current folder, which is the root before the first cd. moved reports whether
// there was a cd.
func (f *folder) here() (path string, moved bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" && f.servedBy != f.servers() {
		f.path, f.before = "", ""
	}
	if f.path == "" {
		return "/", false
	}
	return f.path, true
}

// previous returns the folder that was current before the last cd, or an empty string if there was
// no cd.
func (f *folder) previous() string {
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
	f.servedBy, f.path, f.before = f.servers(), to, from
}

// resolve makes a relative path absolute, and returns an absolute path unchanged. Before the first
// cd, it also returns a relative path unchanged, so that the error about it quotes the path as
// typed.
func (f *folder) resolve(path string) string {
	if here, moved := f.here(); moved {
		return below(here, path)
	}
	return path
}

// below returns the path that rel names, relative to the folder base. In rel, ~ is the root and ..
// is the parent. If rel is absolute, it is returned unchanged. below does not check whether the
// result is a valid path.
func below(base, rel string) string {
	if rel == "" || rel[0] == '/' {
		return rel
	}
	if rest, ok := strings.CutPrefix(rel, "~/"); ok || rel == "~" {
		base, rel = "/", strings.TrimPrefix(rest, "~")
	}
	stepped := false // whether the previous part of rel was . or ..
	for part := range strings.SplitSeq(rel, "/") {
		switch {
		case part == "..":
			base = path.Dir(base)
		case part == ".", part == "" && stepped:
		case base == "/":
			base += part
		default:
			base += "/" + part
		}
		stepped = part == "." || part == ".."
	}
	return base
}

// folderCommands returns the commands cd and pwd.
func (s *Shell) folderCommands() []*commands.Command {
	const group = "Shell"
	return []*commands.Command{
		{
			Name: "cd", Group: group, Args: "[path]",
			Summary: "change the current znode, where relative paths start",
			Help: "Without a path, cd goes to /. In a path, .. is the parent znode and ~ is /. To return to the " +
				"previous znode, use cd -.\n\n" +
				"Some commands use the current znode if you omit their path: ls, tree, find, du, stat and " +
				"getAllChildrenNumber. Before the first cd, only ls does; it lists /.",
			Limits: []string{"Like zkCli, zksh rejects relative paths until you use cd, " +
				"and again after you connect to other servers."},
			Examples: []string{"cd /app", "cd ../archive", "cd -"},
			Params:   []commands.Param{{Name: "path", Kind: commands.Folder, Optional: true}},
			Passing: func(*pflag.FlagSet, []string) string {
				return "the current znode was changed only for this command; use cd in a script or at the prompt"
			},
			Flags: commands.NoFlags(s.cd),
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
	to := strings.Join(args, "") // args has at most one element
	switch to {
	case "":
		to = "/"
	case "-":
		if to = s.folder.previous(); to == "" {
			return errors.New("there is no previous znode to return to")
		}
	default:
		if to = below(here, to); len(to) > 1 {
			to = strings.TrimSuffix(to, "/") // completion may have appended a slash
		}
	}
	if err := zkconn.Exec(ctx, env.Session, zkconn.Exists(to)); err != nil {
		return err
	}
	s.folder.move(to)
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "cd", "path", to}})
}
