package commands

import (
	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
)

// done returns the result of a command for which zkCli prints nothing. Its text form is empty. Its
// JSON form contains the command's name, the path, and the additional keys and values in more.
func done(name, path string, more ...any) render.Answer {
	return render.Answer{JSON: append(render.Facts{"done", name, "path", path}, more...)}
}

// statIfWanted returns a znode's stat in printable form if wanted is true, or nil otherwise.
func statIfWanted(wanted bool, st *zk.Stat) *render.Stat {
	if !wanted {
		return nil
	}
	return (*render.Stat)(st)
}

// oneColumn returns a table with one column and one row for each item.
func oneColumn(header string, items []string) render.Grid {
	g := render.Grid{Header: []string{header}}
	for _, i := range items {
		g.Rows = append(g.Rows, []string{i})
	}
	return g
}
