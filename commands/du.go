package commands

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

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
			s, err := surveyOf(ctx, env, args[0], false, zktree.Options{Stat: true})
			if err != nil {
				return err
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
		}
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
