package commands

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

var duCommand = &Command{
	Name: "du", Group: "Trees", Effect: OneStream, Args: "[-L depth] [-top number] path",
	Summary: "count the bytes and znodes in each subtree",
	Help: "du prints one line for each child of the path, with the number of znodes in the child's subtree and the size of " +
		"their data. The last line is the total for the path itself.\n\n" +
		"With -top, du prints only the largest subtrees, at any depth.",
	Limits:   []string{"The sizes include only data, not names or stats."},
	Examples: []string{"du -top 10 /", "du -L 2 /app"},
	Params:   []Param{hereParam},
	Flags: func(fs *pflag.FlagSet) Run {
		depth := numberFlag(fs, 32, "depth", "L", 1, "print lines for this many levels below the path")
		top := numberFlag(fs, 32, "top", "", 0, "print only this many subtrees, the largest first")
		return func(ctx context.Context, env *Env, args []string) error {
			switch {
			case *depth < 0:
				return Misuse("-L: invalid depth %d: must be 0 or more", *depth)
			case fs.Changed("top") && *top < 1:
				return Misuse("-top: invalid number %d: must be at least 1", *top)
			case fs.Changed("top") && fs.Changed("depth"):
				return Misuse("use only one of -L and -top")
			}
			s, err := surveyOf(ctx, env, args[0], zktree.Options{Stat: true})
			if err != nil {
				return err
			}
			s.znodes = zktree.ChildrenFirst(s.znodes)
			u := &usageCounter{depthOf: s.depth, depth: int(*depth), top: largest{most: int(*top)}}
			v := &render.Stream{
				Open: render.Facts{"path", args[0]}, List: "subtrees",
				Columns: []render.Column{{Header: "bytes", Width: 12, Right: true}, {Header: "znodes", Width: 9, Right: true}, {Header: "path"}},
				Items:   s.items("counted", u.add),
			}
			if *top > 0 {
				v.Items = u.top.items(v.Items)
			}
			return s.print(v)
		}
	},
}

// subtreeSize is the number of znodes in a subtree and the total size of their data.
type subtreeSize struct {
	Bytes  int64 // total size of the data, in bytes
	Znodes int
}

// usageCounter computes the sizes of all subtrees during a walk that visits children first.
type usageCounter struct {
	depthOf func(*dump.Znode) int
	depth   int           // deepest level of subtrees to print
	top     largest       // collects the largest subtrees, if du prints only those
	sums    []subtreeSize // sizes of the subtrees at each level whose parent has not been visited yet
}

// add adds a znode, all of whose descendants were added. If du prints the znode's subtree, add yields it.
func (u *usageCounter) add(z *dump.Znode, _ error, yield func(render.Item) bool) bool {
	depth := u.depthOf(z)
	for len(u.sums) <= depth+1 {
		u.sums = append(u.sums, subtreeSize{})
	}
	whole := u.sums[depth+1]
	u.sums[depth+1] = subtreeSize{}
	whole.Znodes++
	if z.Stat != nil {
		whole.Bytes += int64(z.Stat.DataLength)
	}
	u.sums[depth].Bytes += whole.Bytes
	u.sums[depth].Znodes += whole.Znodes
	switch {
	case u.top.most > 0:
		u.top.add(whole, z.Path)
	case depth <= u.depth:
		return yield(&duItem{z.Path, whole})
	}
	return true
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

func (b *largest) add(s subtreeSize, path string) {
	if len(b.candidates) == 2*b.most+100 {
		b.trim()
	}
	b.candidates = append(b.candidates, &duItem{path, s})
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
