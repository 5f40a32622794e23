package commands

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var findCommand = &Command{
	Name: "find", Group: "Trees", Effect: OneStream | Quotas | RunsLine, // the line after -- may have the effect Quotas
	Args: "path [-name glob] [-path glob] [-data regex] [-size ±n] [-newer 10m|path] [-ephemeral] [-owner session]" +
		" [-children ±n] [-acl regex] [-- command {}]",
	Summary: "find znodes in a subtree, and run a command for each one",
	Help: "find searches PATH and everything below it, and prints one line for each znode that matches all conditions.\n\n" +
		"-name compares a glob with the name of each znode, and -path compares it with the full path. In a glob, * " +
		"matches any text, ? matches any single character, and [a-z] matches one character in that range. With " +
		"-path, * and ? also match /. In -size and -children, n means exactly n, +n means more than n, and -n means " +
		"less than n.\n\n" +
		"To run a zksh command for each match, write the command after --. find replaces every {} in the command " +
		"with the path of the znode; the path is never split into words. If the command fails, find continues, and " +
		"reports the failures at the end. To run another program instead, use zksh find … | xargs.",
	Examples: []string{
		"find /locks -ephemeral -newer 10m",
		`find /app -name "*.json" -size +10k`,
		"find /app -data password -- getAcl {}",
	},
	Params: []Param{hereParam, {Name: "command", Kind: Data, Optional: true, Rest: true}},
	Flags: func(fs *pflag.FlagSet) Run {
		f := &finder{now: time.Now()}
		fs.Var(funcValue{"glob", f.name.set}, "name", "match the name against this glob")
		fs.Var(funcValue{"glob", f.path.set}, "path", "match the full path against this glob")
		fs.Var(regex(&f.data), "data", "match any part of the data against this regular expression")
		fs.Var(funcValue{"n", f.size.set}, "size", "match the size of the data in bytes, or in KiB or MiB if k or M follows the number")
		newer := fs.String("newer", "", "match znodes written within this `time` according to this machine's clock, or written later than the znode at this path")
		fs.BoolVar(&f.ephemeral, "ephemeral", false, "match ephemeral znodes")
		owner := fs.String("owner", "", "match the ephemeral znodes that this `session` owns")
		fs.Var(funcValue{"n", f.children.set}, "children", "match the number of children")
		fs.Var(regex(&f.acl), "acl", "match an ACL entry, written scheme:id:perms, against this regular expression")
		return func(ctx context.Context, env *Env, args []string) error {
			if fs.Changed("owner") {
				session, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(*owner), "0x"), 16, 64)
				if err != nil {
					return Misuse("-owner: invalid session id %q; write it as stat prints it, 0x…", *owner)
				}
				f.owner = int64(session)
				f.owned = true
			}
			if err := f.parseNewer(ctx, env.Session, *newer); err != nil {
				return err
			}
			return f.run(ctx, env, args[0], args[1:])
		}
	},
}

// finder holds the conditions that a find command line sets.
type finder struct {
	now        time.Time
	name       globFlag
	path       globFlag
	data       *regexp.Regexp
	acl        *regexp.Regexp
	size       comparison
	children   comparison
	ephemeral  bool
	owned      bool
	owner      int64
	minMtime   int64 // earliest mtime that matches, in milliseconds since 1970, or 0 for any
	afterMzxid int64 // a matching mzxid is greater than this; 0 for any
}

// parseNewer parses newer, the value of the flag -newer, and sets the condition on mtime or mzxid.
// If newer is a path, parseNewer reads the stat of that znode.
func (f *finder) parseNewer(ctx context.Context, s *zkconn.Session, newer string) error {
	if strings.HasPrefix(newer, "/") {
		st, err := zkconn.Do(ctx, s, zkconn.Exists(newer))
		if err == nil {
			f.afterMzxid = st.Mzxid
		}
		return err
	}
	if newer == "" {
		return nil
	}
	text, days := strings.CutSuffix(newer, "d")
	if days {
		text += "h"
	}
	d, err := time.ParseDuration(text)
	if days {
		d *= 24
	}
	if err != nil || d <= 0 {
		return Misuse("-newer: expected a path, or a duration such as 90s, 10m, 12h or 7d, not %q", newer)
	}
	f.minMtime = f.now.Add(-d).UnixMilli()
	return nil
}

// needsStat reports whether a condition depends on more than the names of the znodes.
func (f *finder) needsStat() bool {
	return f.size.sign != 0 || f.ephemeral || f.owned || f.minMtime != 0 || f.afterMzxid != 0 || f.data != nil
}

// run prints the matching znodes. If command is not empty, run executes it for each znode instead.
func (f *finder) run(ctx context.Context, env *Env, root string, command []string) error {
	o := zktree.Options{Stat: f.needsStat(), Data: f.data != nil, ACL: f.acl != nil, Select: f.mayMatch}
	s, err := surveyOf(ctx, env, root, o)
	if err != nil {
		return err
	}
	hits := f.matches(s)
	if len(command) == 0 {
		return s.print(pathStream(root, hits))
	}
	failed := zktree.Refusals{}
	for item := range hits {
		if item == nil {
			continue
		}
		hit := item.(pathItem).path
		words := make([]Word, len(command))
		for i, w := range command {
			words[i] = Word{Text: strings.ReplaceAll(w, "{}", hit)}
		}
		err := env.Run(ctx, env, words)
		if stopsFind(err) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			if !strings.Contains(err.Error(), hit) {
				err = fmt.Errorf("%s: %w", hit, err)
			}
			failed.Add(err)
		}
	}
	if err := s.end(); failed.N == 0 || err != nil {
		return err
	}
	return fmt.Errorf("the command %s failed for %d of the matching znodes: %w", command[0], failed.N, &failed)
}

// stopsFind reports whether find stops after the command for one znode has failed with err. Find
// continues after errors that concern only that znode: rejections by a server, exit statuses, and
// incompletely read subtrees.
func stopsFind(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.As(err, new(*zkconn.FencedError)), errors.As(err, new(*FinalError)):
		return true
	}
	if partial, is := errors.AsType[*zktree.PartialError](err); is {
		return stopsFind(partial.Cause)
	}
	return !errors.As(err, new(*zkconn.Error)) && !errors.As(err, new(*StatusError))
}

// mayMatch reports whether a znode meets all conditions that depend neither on data nor on ACLs.
// refusal is the reason why the znode is unreadable, or nil.
func (f *finder) mayMatch(z *dump.Znode, refusal error) bool {
	return f.name.matches(path.Base(z.Path)) &&
		(f.children.sign == 0 || refusal == nil && f.children.holds(int64(len(z.Children)))) &&
		(!f.needsStat() || z.Stat != nil && f.statMatches((*render.Stat)(z.Stat))) &&
		(f.path == "" || f.path.matches(z.Path))
}

// statMatches reports whether a znode's stat meets the conditions on it.
func (f *finder) statMatches(st *render.Stat) bool {
	return (f.size.sign == 0 || f.size.holds(int64(st.DataLength))) &&
		(!f.ephemeral || st.EphemeralOwner != 0) &&
		(!f.owned || st.EphemeralOwner == f.owner && f.owner != 0) &&
		st.Mtime >= f.minMtime && (f.afterMzxid == 0 || st.Mzxid > f.afterMzxid)
}

// contentMatches reports whether a znode meets the conditions that depend on data and ACLs.
func (f *finder) contentMatches(z *dump.Znode, refusal error) bool {
	entryMatches := func(a zk.ACL) bool { return f.acl.MatchString(formatEntry(a)) }
	return (f.data == nil || refusal == nil && f.data.Match(z.Data)) &&
		(f.acl == nil || slices.ContainsFunc(z.ACL, entryMatches))
}

// matches returns the matching znodes of a walk, in its order.
func (f *finder) matches(s *survey) iter.Seq[render.Item] {
	return s.items("examined", func(z *dump.Znode, refusal error, yield func(render.Item) bool) bool {
		return !f.mayMatch(z, refusal) || !f.contentMatches(z, refusal) || yield(pathItem{path: z.Path})
	})
}
