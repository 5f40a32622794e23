package queue

import (
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/internal/render"
)

// Text implements render.Value. It writes the differences, the members that could not be read,
// and a summary.
func (c *Comparison) Text(w io.Writer) error { return c.FitText(w, 0) }

// FitText implements render.Fitter.
func (c *Comparison) FitText(w io.Writer, columns int) error {
	const node, field, value = 0, 1, 2
	var lines []string
	if len(c.Differences) > 0 {
		g := c.differences().Fit(columns-1, render.Step{Column: value, Width: 16}, render.Step{Column: node, Width: 12, Cut: ShortNode}, render.Step{Column: field})
		lines = g.Lines()
	}
	for _, m := range c.Members {
		if m.facts == nil {
			lines = append(lines, render.Safe(m.Server+" could not be read: "+m.Problem))
		}
	}
	_, err := io.WriteString(w, strings.Join(append(lines, c.summary()), "\n")+"\n")
	return err
}

// summary returns one line that says whether the members agree.
func (c *Comparison) summary() string {
	place := render.Safe(c.Path)
	what := fmt.Sprintf("%s (%d znodes)", place, c.Znodes)
	switch c.Znodes {
	case 0:
		what = place + " (the znode does not exist)"
	case 1:
		what = place + " (1 znode)"
	}
	all := len(c.Members)
	read := all - c.unread()
	switch {
	case len(c.Differences) > 0:
		return fmt.Sprintf("%d of %d members were read, and they disagree on %s", read, all, what)
	case read == 0:
		return fmt.Sprintf("none of %d members could be read", all)
	}
	return fmt.Sprintf("%d of %d members agree on %s", read, all, what)
}

// Table returns a row for each value of each difference, and for each member that could not be
// read.
func (c *Comparison) Table() render.Grid {
	g := c.differences()
	for _, m := range c.Members {
		if m.facts == nil {
			g.Rows = append(g.Rows, []string{"-", "problem", render.Safe(m.Problem), render.Safe(m.Server)})
		}
	}
	return g
}

// differences returns a row for each value of each difference.
func (c *Comparison) differences() render.Grid {
	g := render.Grid{Header: []string{"NODE", "FIELD", "VALUE", "SERVERS"}}
	for _, d := range c.Differences {
		for _, v := range d.Values {
			g.Rows = append(g.Rows, []string{render.Safe(d.Node), d.Field, v.Value, render.Safe(strings.Join(v.Servers, ","))})
		}
	}
	return g
}
