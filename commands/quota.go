package commands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// Paths and names of the znodes in which servers store quotas, as in org.apache.zookeeper.Quotas.
// The chroot of the session does not apply to these paths.
const (
	quotaRoot  = zkconn.QuotaPath
	limitsName = zkconn.QuotaLimits
	statsName  = zkconn.QuotaStats
)

// limit describes one of the four limits that a quota can contain.
type limit struct {
	flag, long string // short and long names of the flag that sets the limit
	key        string // key of the limit in the data of the quota's znode
	usage      string // help text of the flag
	min        int64  // smallest valid value
	max        int64  // largest valid value
	tooSmall   string // message for a value below min
}

const (
	numTooSmall   = "the num quota must be greater than zero"
	bytesTooSmall = "the bytes quota must be greater than or equal to zero"
)

// limits contains the soft limits, followed by the hard limits. In both cases, the limit on the
// number of znodes comes before the limit on the bytes of data.
var limits = []limit{
	{"n", "count", "count", "soft limit on the number of znodes", 1, math.MaxInt32, numTooSmall},
	{"b", "bytes", "bytes", "soft limit on the bytes of data", 0, math.MaxInt64, bytesTooSmall},
	{"N", "hard-count", "countHardLimit", "hard limit on the number of znodes", 1, math.MaxInt32, numTooSmall},
	{"B", "hard-bytes", "byteHardLimit", "hard limit on the bytes of data", 0, math.MaxInt64, bytesTooSmall},
}

// quotaNodes reads and writes the two znodes in which a server stores the quota of one path.
type quotaNodes struct {
	c    zkconn.Client // client whose paths start at the server's root, not at the chroot
	env  *Env
	path string // path to which the quota applies, as the user typed it
	dir  string // parent of the quota's two znodes, as a path from the server's root
}

func (env *Env) quotaNodes(path string) (quotaNodes, error) {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return quotaNodes{}, err
	}
	server := env.Session.ServerPath(path)
	if server == "/" {
		return quotaNodes{}, errors.New("/ cannot have a quota; specify a znode below it")
	}
	return quotaNodes{env.Session.Absolute(), env, path, quotaRoot + server}, nil
}

func (n quotaNodes) limits() string { return zkconn.Join(n.dir, limitsName) }
func (n quotaNodes) stats() string  { return zkconn.Join(n.dir, statsName) }

func (n quotaNodes) read(ctx context.Context, node string) (jute.Quota, error) {
	got, err := zkconn.Do(ctx, n.c, zkconn.GetData(node))
	if err != nil {
		return nil, err
	}
	q, err := parseQuota(got.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", node, err)
	}
	return q, nil
}

var setquotaCommand = &Command{
	Name: "setquota", Group: "Quotas", Effect: Writes | Quotas, Args: "-n|-b|-N|-B val path",
	Summary: "limit the number of znodes or the data size of a subtree",
	Help: "If a soft limit is exceeded, the server only writes a warning to its log. Hard limits are enforced by " +
		"servers of version 3.7 or later that have enforceQuota=true. setquota changes only the limit that you " +
		"specify; the znode keeps its other limits.",
	Examples: []string{"setquota -n 1000 /app", "setquota -B 1048576 /app"},
	Params:   []Param{pathParam},
	Look:     lookWith("listquota"),
	Flags: func(fs *pflag.FlagSet) Run {
		values := make([]*int64, len(limits))
		for i, l := range limits {
			values[i] = numberFlag(fs, 64, l.long, l.flag, -1, l.usage)
		}
		return func(ctx context.Context, env *Env, args []string) error {
			chosen, err := chosenLimit(fs, true)
			if err != nil {
				return err
			}
			l, v := limits[chosen], *values[chosen]
			switch {
			case v < l.min:
				return Misuse("%s, not %d", l.tooSmall, v)
			case v > l.max:
				return Misuse("%d is too large for -%s: the maximum is %d", v, l.flag, l.max)
			}
			return setQuota(ctx, env, args[0], l.key, v)
		}
	},
}

// chosenLimit returns the index in limits of the limit whose flag was set, or -1 if no flag was
// set. It returns an error if several flags were set, or if none was set but required is true.
func chosenLimit(fs *pflag.FlagSet, required bool) (int, error) {
	chosen := -1
	for i, l := range limits {
		switch {
		case !fs.Changed(l.long):
		case chosen >= 0:
			return 0, Misuse("-%s and -%s were both given; set one limit at a time", limits[chosen].flag, l.flag)
		default:
			chosen = i
		}
	}
	if chosen < 0 && required {
		return 0, Misuse("missing -n, -b, -N or -B")
	}
	return chosen, nil
}

func setQuota(ctx context.Context, env *Env, path, key string, v int64) error {
	n, err := env.quotaNodes(path)
	if err != nil {
		return err
	}
	if strings.HasPrefix(env.Session.ServerPath(path), quotaRoot) {
		return errors.New("cannot set a quota under the path: " + quotaRoot)
	}
	switch err := zkconn.Exec(ctx, env.Session, zkconn.Exists(path)); {
	case errors.Is(err, zkconn.NoNode):
		return errors.New(path + " does not exist.")
	// Return other errors, but not NoAuth, which shows that the znode exists.
	case ignore(err, zkconn.NoAuth) != nil:
		return err
	}
	q, err := n.read(ctx, n.limits())
	fresh := errors.Is(err, zkconn.NoNode)
	if fresh {
		q, err = jute.Quota{"count": -1, "bytes": -1, "byteHardLimit": -1, "countHardLimit": -1}, n.createParents(ctx)
	}
	if err != nil {
		return err
	}
	q[key] = v
	env.unrecorded("setquota " + path)
	if fresh {
		err = zkconn.Exec(ctx, n.c, zkconn.Create(n.limits(), []byte(q.String()), zkconn.OpenACL(), zkconn.CreateMode{}))
	} else {
		err = zkconn.Exec(ctx, n.c, zkconn.SetData(n.limits(), []byte(q.String()), -1))
	}
	if err != nil {
		return err
	}
	return n.printResult(ctx, q)
}

// createParents creates the missing ancestors of the quota's znodes and the stats znode, whose data
// the server maintains from then on. It returns an error if an ancestor or a descendant of the path
// already has a quota.
func (n quotaNodes) createParents(ctx context.Context) error {
	if err := n.checkNoneAbove(ctx); err != nil {
		return err
	}
	if err := n.checkNoneBelow(ctx); err != nil {
		return err
	}
	for i := len(quotaRoot); i <= len(n.dir); i++ {
		if i < len(n.dir) && n.dir[i] != '/' {
			continue
		}
		err := zkconn.Exec(ctx, n.c, zkconn.Create(n.dir[:i], nil, zkconn.OpenACL(), zkconn.CreateMode{}))
		if err := ignore(err, zkconn.NodeExists); err != nil {
			return err
		}
	}
	zero := jute.Quota{"count": 0, "bytes": 0}
	err := zkconn.Exec(ctx, n.c, zkconn.Create(n.stats(), []byte(zero.String()), zkconn.OpenACL(), zkconn.CreateMode{}))
	return ignore(err, zkconn.NodeExists)
}

func (n quotaNodes) checkNoneAbove(ctx context.Context) error {
	for i := len(n.dir) - 1; i > len(quotaRoot); i-- {
		if n.dir[i] != '/' {
			continue
		}
		err := zkconn.Exec(ctx, n.c, zkconn.Exists(zkconn.Join(n.dir[:i], limitsName)))
		if err == nil || errors.Is(err, zkconn.NoAuth) {
			return fmt.Errorf("%s has a parent %s which has a quota", n.path, n.clientPath(n.dir[:i]))
		}
		if err := ignore(err, zkconn.NoNode); err != nil {
			return err
		}
	}
	return nil
}

// clientPath returns the path whose quota is stored in dir, relative to the session's chroot.
func (n quotaNodes) clientPath(dir string) string {
	return n.env.Session.ClientPath(strings.TrimPrefix(dir, quotaRoot))
}

func (n quotaNodes) checkNoneBelow(ctx context.Context) error {
	all, err := zktree.Walk(ctx, n.c, n.dir, zktree.Options{})
	if err != nil {
		return ignore(err, zkconn.NoNode)
	}
	for z, err := range all {
		if err != nil {
			return err
		}
		if dir, is := strings.CutSuffix(z.Path, "/"+limitsName); is && z.Path != n.dir {
			return fmt.Errorf("%s has a child %s which has a quota", n.path, n.clientPath(dir))
		}
	}
	return nil
}

// printResult prints the result of setquota. Like zkCli, it adds a warning if the number of znodes
// already exceeds a limit of the quota, and another if their data does.
func (n quotaNodes) printResult(ctx context.Context, q jute.Quota) error {
	used, err := n.read(ctx, n.stats())
	if err := ignore(err, zkconn.NoNode); err != nil {
		return err
	}
	answer := done("setquota", n.path)
	var warnings []string
	for i, what := range []string{"count", "bytes"} {
		have, soft, hard := used.Get(what), q.Get(limits[i].key), q.Get(limits[i+2].key)
		if soft >= 0 && have > soft || hard >= 0 && have > hard {
			warnings = append(warnings, fmt.Sprintf("the %s quota you create is less than the existing %s:%d", what, what, have))
		}
	}
	if len(warnings) > 0 {
		answer = done("setquota", n.path, "warnings", warnings)
		answer.Words = "[Warning]: " + strings.Join(warnings, "\n[Warning]: ") + "\n"
	}
	return n.env.Screen.Print(answer)
}

var listquotaCommand = &Command{
	Name: "listquota", Group: "Quotas", Args: "path",
	Summary: "print a znode's quota and how much of it is used",
	Help: "listquota prints the limits and the current usage. count is the number of znodes in the subtree, including " +
		"its root, and bytes is the total size of their data. A limit of -1 means unlimited.",
	Examples: []string{"listquota /app", "listquota /"},
	Params:   []Param{pathParam},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		n, err := env.quotaNodes(args[0])
		if err != nil {
			return err
		}
		env.Screen.Note("absolute path is " + n.limits())
		var used jute.Quota
		limits, err := n.read(ctx, n.limits())
		if err == nil {
			used, err = n.read(ctx, n.stats())
		}
		if errors.Is(err, zkconn.NoNode) {
			return fmt.Errorf("quota for %s does not exist.", args[0])
		}
		g := render.Grid{Header: []string{"what", "used", "limit", "hard limit"}}
		for _, kind := range [][2]string{{"count", "countHardLimit"}, {"bytes", "byteHardLimit"}} {
			row := kind[:1:1]
			for _, n := range []int64{used.Get(kind[0]), limits.Get(kind[0]), limits.Get(kind[1])} {
				row = append(row, strconv.FormatInt(n, 10))
			}
			g.Rows = append(g.Rows, row)
		}
		return env.answer(err, render.Answer{
			Grid:  g,
			Words: fmt.Sprintf("Output quota for %s %s\nOutput stat for %s %s\n", args[0], limits, args[0], used),
			JSON:  render.Facts{"path", args[0], "limits", limits, "stats", used},
		})
	}),
}

var delquotaCommand = &Command{
	Name: "delquota", Group: "Quotas", Effect: Writes, Args: "[-n|-b|-N|-B] path",
	Summary:  "remove a znode's quota, or one of its limits",
	Examples: []string{"delquota -n /app", "delquota /app"},
	Params:   []Param{pathParam},
	Look:     lookWith("listquota"),
	Flags: func(fs *pflag.FlagSet) Run {
		for _, l := range limits {
			fs.BoolP(l.long, l.flag, false, "remove only the "+l.usage)
		}
		return func(ctx context.Context, env *Env, args []string) error {
			chosen, err := chosenLimit(fs, false)
			if err != nil {
				return err
			}
			n, err := env.quotaNodes(args[0])
			if err != nil {
				return err
			}
			env.unrecorded("delquota " + args[0])
			if err = n.remove(ctx, chosen); errors.Is(err, zkconn.NoNode) {
				err = fmt.Errorf("Quota does not exist for %s", args[0])
			}
			return env.answer(err, done("delquota", args[0]))
		}
	},
}

// remove removes the limit limits[chosen] from the quota. If chosen is negative, remove deletes the
// whole quota, and then each ancestor of the quota's znodes that has become empty.
func (n quotaNodes) remove(ctx context.Context, chosen int) error {
	if chosen >= 0 {
		q, err := n.read(ctx, n.limits())
		if err != nil {
			return err
		}
		q[limits[chosen].key] = -1
		err = zkconn.Exec(ctx, n.c, zkconn.SetData(n.limits(), []byte(q.String()), -1))
		return err
	}
	if err := zkconn.Exec(ctx, n.c, zkconn.Delete(n.limits(), -1)); err != nil {
		return err
	}
	if err := ignore(zkconn.Exec(ctx, n.c, zkconn.Delete(n.stats(), -1)), zkconn.NoNode); err != nil {
		return err
	}
	for dir := n.dir; dir != quotaRoot; dir = dir[:strings.LastIndexByte(dir, '/')] {
		err := zkconn.Exec(ctx, n.c, zkconn.Delete(dir, -1))
		if errors.Is(err, zkconn.NotEmpty) {
			return nil
		}
		if err := ignore(err, zkconn.NoNode); err != nil {
			return err
		}
	}
	return nil
}

func parseQuota(data []byte) (jute.Quota, error) {
	q, ok := jute.ParseQuota(data)
	if !ok || len(q) == 0 {
		return nil, fmt.Errorf("malformed quota %q", data)
	}
	return q, nil
}

// guardQuota returns an error if path is the stats znode of a quota and data is malformed. A server
// (3.8.0) would crash on such data at the next write below the quota's path.
func guardQuota(env *Env, path string, data []byte) error {
	server := env.Session.ServerPath(path)
	if !strings.HasPrefix(server, quotaRoot+"/") || !strings.HasSuffix(server, "/"+statsName) {
		return nil
	}
	if _, err := parseQuota(data); err != nil {
		return fmt.Errorf("cannot write %s to %s: a malformed quota can crash the server; use setquota", strconv.Quote(string(data)), path)
	}
	return nil
}
