package commands

import (
	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
)

// done is the answer of a command zkCli lets pass without a word, with more facts
// about what it did.
func done(name, path string, more ...any) render.Answer {
	return render.Answer{JSON: append(render.Facts{"done", name, "path", path}, more...)}
}

// statIf is the stat of an answer that has one only if that is wished.
func statIf(wished bool, st *zk.Stat) *render.Stat {
	if !wished {
		return nil
	}
	return (*render.Stat)(st)
}

// column is a table of one column.
func column(header string, items []string) render.Grid {
	g := render.Grid{Header: []string{header}}
	for _, i := range items {
		g.Rows = append(g.Rows, []string{i})
	}
	return g
}
