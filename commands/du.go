package commands

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

var duCommand = &Command{
	Name: "du", Group: "Trees", Effect: OneStream, Args: "[-L depth] [-top number] [--ncdu] [--in file] [--max-size MiB] path",
	Summary: "count the bytes and znodes in each subtree",
	Help: "du prints one line for each child of the path, with the number of znodes in the child's subtree and the size of " +
		"their data. The last line is the total for the path itself.\n\n" +
		"With -top, du prints only the largest subtrees, at any depth. With --ncdu, du writes output that you can " +
		"browse with ncdu -f.",
	Limits:   []string{"The sizes include only data, not names or stats.", "--ncdu ignores the -o option."},
	Examples: []string{"du -top 10 /", "du -L 2 /app", "du --ncdu / > tree.ncdu"},
	Params:   []Param{hereParam},
	Flags: func(fs *pflag.FlagSet) Run {
		depth := numberFlag(fs, 32, "depth", "L", 1, "print lines for this many levels below the path")
		top := numberFlag(fs, 32, "top", "", 0, "print only this many subtrees, the largest first")
		ncdu := fs.Bool("ncdu", false, "write the output in the format of ncdu")
		return withReader(fs, func(ctx context.Context, env *Env, from reader, args []string) error {
			switch {
			case *depth < 0:
				return Misuse("-L: invalid depth %d: must be 0 (no limit) or more", *depth)
			case fs.Changed("top") && *top < 1:
				return Misuse("-top: invalid number %d: must be at least 1", *top)
			case fs.Changed("top") && fs.Changed("depth"), *ncdu && (fs.Changed("top") || fs.Changed("depth")):
				return Misuse("use only one of -L, -top and --ncdu")
			}
			s, err := surveyOf(ctx, env, from, args[0], false, zktree.Options{Stat: true})
			if err != nil {
				return err
			}
			if *ncdu {
				return s.print(&render.Stream{Raw: true, Items: s.items("counted", ncduItems(args[0], env.Version))})
			}
			u := &usageCounter{depth: int(*depth), top: largest{most: int(*top)}}
			v := &render.Stream{
				Open: render.Facts{"path", args[0]}, List: "subtrees",
				Columns: []render.Column{{Header: "bytes", Width: 12, Right: true}, {Header: "znodes", Width: 9, Right: true}, {Header: "path"}},
				Items:   s.items("counted", u.step),
			}
			if *top > 0 {
				v.Items = u.top.items(v.Items)
			}
			return s.print(v)
		})
	},
}

// subtreeSize is the number of znodes in a subtree and the total size of their data.
type subtreeSize struct {
	Bytes  int64 // total size of the data, in bytes
	Znodes int
}

// usageCounter computes the sizes of all subtrees during a walk.
type usageCounter struct {
	depth     int           // deepest level of subtrees to print
	top       largest       // collects the largest subtrees, if du prints only those
	ancestors []subtreeSize // sizes counted so far, one for each znode on the current path
}

// step handles one step of the walk. When the step completes a subtree that du prints, step yields
// that subtree.
func (u *usageCounter) step(st *zktree.Step, yield func(render.Item) bool) bool {
	if st.Kind == zktree.Enter {
		u.ancestors = append(u.ancestors, subtreeSize{int64(dataLength(st)), 1})
		if len(st.Names) > 0 {
			return true
		}
	}
	last := len(u.ancestors) - 1
	whole := u.ancestors[last]
	if u.ancestors = u.ancestors[:last]; last > 0 {
		u.ancestors[last-1].Bytes += whole.Bytes
		u.ancestors[last-1].Znodes += whole.Znodes
	}
	switch {
	case u.top.most > 0:
		u.top.add(whole, st)
	case st.Depth <= u.depth:
		return yield(&duItem{st.Path(), whole})
	}
	return true
}

// dataLength returns the size of a znode's data in bytes, or 0 if its stat is unknown.
func dataLength(st *zktree.Step) int32 {
	if st.Stat == nil {
		return 0
	}
	return st.Stat.DataLength
}

var _ render.Item = (*duItem)(nil)

// duItem is one subtree in the output of du.
type duItem struct {
	path string
	subtreeSize
}

func (d *duItem) Cells() []string {
	return []string{strconv.FormatInt(d.Bytes, 10), strconv.Itoa(d.Znodes), render.OneLine(d.path)}
}

func (d *duItem) JSON() any {
	return render.Facts{"path", d.path, "bytes", d.Bytes, "znodes", d.Znodes}
}

// largest finds the largest subtrees that a walk visits.
type largest struct {
	most       int       // number of subtrees to find, or 0 if du prints all subtrees
	candidates []*duItem // largest subtrees so far, and smaller ones until the next trim; at most 2*most+100
}

func (b *largest) add(s subtreeSize, st *zktree.Step) {
	if len(b.candidates) == 2*b.most+100 {
		b.trim()
	}
	b.candidates = append(b.candidates, &duItem{st.Path(), s})
}

// trim sorts the candidates, largest first, and discards all but the first b.most.
func (b *largest) trim() {
	slices.SortFunc(b.candidates, func(x, y *duItem) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.Znodes, x.Znodes), cmp.Compare(x.path, y.path))
	})
	clear(b.candidates[min(b.most, len(b.candidates)):])
	b.candidates = b.candidates[:min(b.most, len(b.candidates))]
}

// items runs walk to its end and then yields the largest subtrees that it found.
func (b *largest) items(walk func(func(render.Item) bool)) func(func(render.Item) bool) {
	return func(yield func(render.Item) bool) {
		stopped := false
		walk(func(pause render.Item) bool {
			stopped = !yield(pause)
			return !stopped
		})
		b.trim()
		for _, d := range b.candidates {
			if stopped || !yield(d) {
				return
			}
		}
	}
}

// ncduItems returns a function that yields the lines of ncdu's export format. In that format, a
// znode with children is a nested array, and any other znode is an object. The root is named by its
// full path.
func ncduItems(root, version string) func(*zktree.Step, func(render.Item) bool) bool {
	return func(st *zktree.Step, yield func(render.Item) bool) bool {
		if st.Kind == zktree.Leave {
			return yield(rawLine("]")) && (st.Depth > 0 || yield(rawLine("]")))
		}
		name, start := st.Name, ","
		if st.Depth == 0 {
			now := time.Now().Unix()
			head, err := render.Marshal(render.Facts{"progname", "zksh", "progver", version, "timestamp", now})
			if err != nil || !yield(rawLine("[1,2,"+string(head))) {
				return false
			}
			name = root
		}
		facts := render.Facts{"name", name, "asize", dataLength(st), "dsize", dataLength(st)}
		end := ""
		if st.Err != nil {
			facts = append(facts, "read_error", true)
		}
		if len(st.Names) > 0 || st.Err != nil || st.Depth == 0 {
			start += "["
		}
		if len(st.Names) == 0 && start == ",[" {
			end = "]"
		}
		if st.Depth == 0 && end != "" {
			end = "]\n]"
		}
		info, err := render.Marshal(facts)
		return err == nil && yield(rawLine(start+string(info)+end))
	}
}

var _ render.Item = rawLine("")

// rawLine is a line that is printed unchanged in every format.
type rawLine string

func (r rawLine) Cells() []string { return []string{string(r)} }

func (r rawLine) JSON() any { return string(r) }
