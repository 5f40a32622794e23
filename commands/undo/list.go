package undo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// print lists the operations, and those that cannot be read.
func (l Log) print(env *commands.Env) error {
	s := &store{l.Dir}
	all, bad, err := s.read()
	if err != nil {
		return err
	}
	rows := make([]listed, 0, len(all)+len(bad))
	for _, e := range all {
		rows = append(rows, &operation{e, l.By, time.Now(), e.elsewhere(env) != nil, s.dumpOf(e.N) == ""})
	}
	for _, d := range bad {
		rows = append(rows, d)
	}
	slices.SortFunc(rows, func(a, b listed) int { return b.number() - a.number() })
	err = env.Screen.Print(&render.Stream{
		List: "operations",
		Columns: []render.Column{
			{Header: "no", Width: 3, Right: true}, {Header: "age", Width: 4, Right: true}, {Header: "command", Width: 9},
			{Header: "znodes", Width: 6, Right: true}, {Header: "bytes", Width: 6, Right: true}, {Header: "by", Width: 7}, {Header: "path"},
		},
		Items: func(yield func(render.Item) bool) {
			for _, row := range rows {
				if !yield(row) {
					return
				}
			}
		},
	})
	for _, d := range bad {
		env.Screen.Note(d.text())
	}
	return err
}

// listed is a row of undo -l.
type listed interface {
	render.Item
	number() int
}

// operation is an operation in undo -l.
type operation struct {
	*entry
	here By
	now  time.Time
	far  bool // on another ensemble, or below another chroot
	gone bool // its dump is
}

func (o *operation) number() int { return o.N }

// Cells implements render.Item.
func (o *operation) Cells() []string {
	at, size := o.Path, strconv.FormatInt(o.Data, 10)
	if o.By == nil { // an older zksh, which did not count it
		size = "-"
	}
	if o.far {
		at += " on " + o.place()
	}
	if state := o.state(); state != string(done) {
		at += " (" + strings.Replace(state, string(begun), "maybe", 1) + ")"
	}
	return []string{strconv.Itoa(o.N), commands.Age(o.now.Sub(o.Time)), o.Command, strconv.Itoa(o.Znodes), size, o.By.cell(o.here), at}
}

// state is that of the operation, in JSON.
func (o *operation) state() string {
	switch {
	case o.State == undone:
		return string(undone)
	case o.gone:
		return unreadable
	case o.Partly:
		return partlyUndone
	}
	return string(o.State)
}

// JSON implements render.Item.
func (o *operation) JSON() any {
	var data any = o.Data
	if o.By == nil {
		data = nil
	}
	return render.Facts{"number", o.N, "time", render.Time(o.Time), "command", o.Command, "path", o.Path, "servers", o.Servers, "chroot", o.Chroot,
		"znodes", o.Znodes, "bytes", data, "fileBytes", o.Bytes, "state", o.state(), "by", o.By.facts(o.here)}
}

func (d *damaged) number() int { return d.n }

// Cells implements render.Item.
func (d *damaged) Cells() []string {
	return []string{strconv.Itoa(d.n), "-", "-", "-", "-", "-", "(" + unreadable + ")"}
}

// JSON implements render.Item.
func (d *damaged) JSON() any {
	files := []string{}
	for _, f := range []string{d.entry, d.dump} {
		if f != "" {
			files = append(files, f)
		}
	}
	return render.Facts{"number", d.n, "state", unreadable, "reason", d.why.Error(), "files", files}
}

// text says why it cannot be read, and what can be done.
func (d *damaged) text() string {
	text := fmt.Sprintf("operation %d is unreadable: %s", d.n, d.why)
	if d.dump == "" {
		return text + "; the saved copy no longer exists"
	}
	return fmt.Sprintf("%s; to restore the saved copy, run: import -R --overwrite %s", text, commands.Quote(d.dump))
}
