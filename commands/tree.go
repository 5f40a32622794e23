package commands

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

var treeCommand = &Command{
	Name: "tree", Group: "Trees", Effect: OneStream, Args: "[-L depth] [-s] path",
	Summary: "print a subtree as a tree",
	Help: "tree draws the subtree, with each znode indented under its parent. Unreadable znodes are listed at the end. With -s, each " +
		"line begins with the size of the znode's data in bytes.",
	Examples: []string{"tree -L 2 /app", "tree -s /app"},
	Params:   []Param{hereParam},
	Flags: func(fs *pflag.FlagSet) Run {
		depth := numberFlag(fs, 32, "depth", "L", 0, "print only this many levels below the path; 0 means all")
		sizes := fs.BoolP("size", "s", false, "print the size of each znode's data in bytes")
		return func(ctx context.Context, env *Env, args []string) error {
			if *depth < 0 {
				return Misuse("-L: invalid depth %d: must be 0 (no limit) or more", *depth)
			}
			s, err := surveyOf(ctx, env, args[0], zktree.Options{Stat: *sizes, Depth: int(*depth)})
			if err != nil {
				return err
			}
			v := &render.Stream{Open: render.Facts{"path", args[0]}, List: "znodes", Bare: true, Columns: []render.Column{{Header: "znode"}}}
			if *sizes {
				v.Columns = append([]render.Column{{Header: "bytes", Width: 7, Right: true}}, v.Columns...)
			}
			var lines []bool   // for each level down to the current znode, whether more siblings follow
			var lasts []string // for each level down to the current znode, the name of its last child
			v.Items = s.items("listed", func(z *dump.Znode, _ error, yield func(render.Item) bool) bool {
				depth := s.depth(z)
				item := &treeItem{path: z.Path, depth: depth, name: args[0], sized: *sizes}
				if depth > 0 {
					name := nameOf(z.Path)
					lines = append(lines[:depth-1], name != lasts[depth-1])
					item.name = treeLines(lines) + render.OneLine(name)
				}
				last := ""
				if n := len(z.Children); n > 0 {
					last = z.Children[n-1]
				}
				lasts = append(lasts[:depth], last)
				if z.Stat != nil {
					item.bytes = &z.Stat.DataLength
				}
				return yield(item)
			})
			return s.print(v)
		}
	},
}

// treeLines draws the lines that connect a znode to its parent and siblings, to the left of its
// name.
func treeLines(lines []bool) string {
	var b strings.Builder
	for i, more := range lines {
		switch {
		case i == len(lines)-1 && more:
			b.WriteString("├── ")
		case i == len(lines)-1:
			b.WriteString("└── ")
		case more:
			b.WriteString("│   ")
		default:
			b.WriteString("    ")
		}
	}
	return b.String()
}

var _ render.Item = (*treeItem)(nil)

// treeItem is a znode in the output of tree.
type treeItem struct {
	path  string
	depth int
	name  string // name, preceded by the connecting lines
	sized bool
	bytes *int32 // nil if the size is unknown
}

func (t *treeItem) Cells() []string {
	switch {
	case !t.sized:
		return []string{t.name}
	case t.bytes == nil:
		return []string{"-", t.name}
	}
	return []string{strconv.Itoa(int(*t.bytes)), t.name}
}

func (t *treeItem) JSON() any {
	facts := render.Facts{"path", t.path, "depth", t.depth}
	if t.sized {
		facts = append(facts, "bytes", t.bytes)
	}
	return facts
}
