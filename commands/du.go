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
		return looking(fs, func(ctx context.Context, env *Env, from reader, args []string) error {
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
			u := &usage{depth: int(*depth), top: biggest{most: int(*top)}}
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

// sum is what a subtree comes to.
type sum struct {
	Bytes  int64
	Znodes int
}

// usage adds subtrees up.
type usage struct {
	depth int     // down to which they have lines
	top   biggest // takes them instead, if it has room for any
	open  []sum   // of the folders on the way
}

// step takes a step of the walk, and yields the subtree that ends with it.
func (u *usage) step(st *zktree.Step, yield func(render.Item) bool) bool {
	if st.Kind == zktree.Enter {
		u.open = append(u.open, sum{int64(dataLength(st)), 1})
		if len(st.Names) > 0 {
			return true
		}
	}
	last := len(u.open) - 1
	whole := u.open[last]
	if u.open = u.open[:last]; last > 0 {
		u.open[last-1].Bytes += whole.Bytes
		u.open[last-1].Znodes += whole.Znodes
	}
	switch {
	case u.top.most > 0:
		u.top.add(whole, st)
	case st.Depth <= u.depth:
		return yield(&duItem{st.Path(), whole})
	}
	return true
}

// dataLength is how many bytes of data a znode has, as far as that may be known.
func dataLength(st *zktree.Step) int32 {
	if st.Stat == nil {
		return 0
	}
	return st.Stat.DataLength
}

// duItem is a subtree in du.
type duItem struct {
	path string
	sum
}

// Cells is part of render.Item.
func (d *duItem) Cells() []string {
	return []string{strconv.FormatInt(d.Bytes, 10), strconv.Itoa(d.Znodes), render.OneLine(d.path)}
}

// JSON is part of render.Item.
func (d *duItem) JSON() any {
	return render.Facts{"path", d.path, "bytes", d.Bytes, "znodes", d.Znodes}
}

// biggest are the biggest subtrees so far, among some more.
type biggest struct {
	most int
	kept []*duItem
}

func (b *biggest) add(s sum, st *zktree.Step) {
	if len(b.kept) == 2*b.most+100 {
		b.cut()
	}
	b.kept = append(b.kept, &duItem{st.Path(), s})
}

// cut leaves the biggest, in order.
func (b *biggest) cut() {
	slices.SortFunc(b.kept, func(x, y *duItem) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.Znodes, x.Znodes), cmp.Compare(x.path, y.path))
	})
	clear(b.kept[min(b.most, len(b.kept)):])
	b.kept = b.kept[:min(b.most, len(b.kept))]
}

// items are the biggest, once all items have been gone through.
func (b *biggest) items(all func(func(render.Item) bool)) func(func(render.Item) bool) {
	return func(yield func(render.Item) bool) {
		left := false
		all(func(pause render.Item) bool {
			left = !yield(pause)
			return !left
		})
		b.cut()
		for _, d := range b.kept {
			if left || !yield(d) {
				return
			}
		}
	}
}

// ncduItems makes the lines of ncdu's format: nested arrays for znodes with children,
// and objects for others. The root has its whole path for a name.
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

// rawLine is a line that is the same in every form.
type rawLine string

// Cells is part of render.Item.
func (r rawLine) Cells() []string { return []string{string(r)} }

// JSON is part of render.Item; nobody asks for it.
func (r rawLine) JSON() any { return string(r) }
