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

// print prints the list of operations in the log, including operations whose entries cannot be
// read.
func (l Log) print(env *commands.Env) error {
	s := &store{l.Dir}
	all, bad, err := s.readAll()
	if err != nil {
		return err
	}
	rows := make([]row, 0, len(all)+len(bad))
	for _, e := range all {
		rows = append(rows, &operationRow{e, l.By, time.Now(), e.checkServers(env) != nil, s.dumpName(e.N) == ""})
	}
	for _, d := range bad {
		rows = append(rows, d)
	}
	slices.SortFunc(rows, func(a, b row) int { return b.number() - a.number() })
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

// row is one row in the output of undo -l.
type row interface {
	render.Item
	number() int
}

// operationRow is the row of an operation whose entry can be read.
type operationRow struct {
	*entry
	origin    Origin
	now       time.Time
	elsewhere bool // whether the operation was done on another ensemble or below another chroot
	noDump    bool // whether the dump of the operation no longer exists
}

func (o *operationRow) number() int { return o.N }

func (o *operationRow) Cells() []string {
	at, size := o.Path, strconv.FormatInt(o.Data, 10)
	if o.By == nil { // older versions of zksh recorded neither By nor the size
		size = "-"
	}
	if o.elsewhere {
		at += " on " + o.location()
	}
	if state := o.state(); state != string(done) {
		at += " (" + strings.Replace(state, string(begun), "maybe", 1) + ")"
	}
	if o.Last != "" {
		at += " to " + o.Last
	}
	return []string{strconv.Itoa(o.N), commands.Age(o.now.Sub(o.Time)), o.Command, strconv.Itoa(o.Znodes + o.Created),
		size, o.By.cell(o.origin), at}
}

// state returns the name of the operation's state in JSON output.
func (o *operationRow) state() string {
	switch {
	case o.State == undone:
		return string(undone)
	case o.noDump:
		return unreadable
	case o.Partly:
		return partlyUndone
	}
	return string(o.State)
}

func (o *operationRow) JSON() any {
	var data any = o.Data
	if o.By == nil {
		data = nil
	}
	return render.Facts{"number", o.N, "time", render.Time(o.Time), "command", o.Command, "path", o.Path, "servers", o.Servers, "chroot", o.Chroot,
		"znodes", o.Znodes + o.Created, "bytes", data, "fileBytes", o.Bytes, "state", o.state(), "by", o.By.facts(o.origin)}
}

func (d *damaged) number() int { return d.n }

func (d *damaged) Cells() []string {
	return []string{strconv.Itoa(d.n), "-", "-", "-", "-", "-", "(" + unreadable + ")"}
}

func (d *damaged) JSON() any {
	files := []string{}
	for _, f := range []string{d.entry, d.dump} {
		if f != "" {
			files = append(files, f)
		}
	}
	return render.Facts{"number", d.n, "state", unreadable, "reason", d.why.Error(), "files", files}
}

// text returns a message that says why the entry cannot be read and how to restore the saved data.
func (d *damaged) text() string {
	text := fmt.Sprintf("operation %d is unreadable: %s", d.n, d.why)
	if d.dump == "" {
		return text + "; the saved copy no longer exists"
	}
	return fmt.Sprintf("%s; to restore the saved copy, run: import -R --overwrite %s", text, commands.Quote(d.dump))
}
