package transfer

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
)

var logCommand = &commands.Command{
	Name: "log", Group: "Trees", Effect: commands.Offline | commands.OneStream, Args: "[-d] file [path]",
	Summary: "print the changes recorded in a transaction log",
	Help: "log reads one of the log.* files in ZooKeeper's dataLogDir, without a server. It prints each change with its time " +
		"and its session. With -d, log also prints the data that was written.\n\n" +
		"With a path, log prints only the changes to that znode and to the znodes below it.\n\n" +
		"log verifies the checksum of each record, and stops at a damaged record with an error. The error message says " +
		"whether the log contains intact records after the damaged one.",
	Limits: []string{
		"The log of a server that is running, or that was killed, can end in the middle of a record. log then prints a note.",
		"With a path, log can print the end of a session only if ZooKeeper 3.6 or later wrote the log: these versions record which ephemeral znodes were deleted.",
	},
	Examples: []string{"log /var/lib/zookeeper/version-2/log.100000001 /app", "log -d log.100000001"},
	Params:   []commands.Param{{Name: "file", Kind: commands.File}, {Name: "path", Kind: commands.Path, Optional: true}},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		data := fs.BoolP("data", "d", false, "also print the data that was written")
		return func(ctx context.Context, env *commands.Env, args []string) (err error) {
			l, err := dump.OpenLog(ctx, args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			root := "/"
			if len(args) > 1 {
				root = args[1]
			}
			return printLog(env, l, root, *data)
		}
	},
}

// printLog prints those transactions of a transaction log that affect znodes at or below root.
func printLog(env *commands.Env, l *dump.Log, root string, data bool) error {
	var failed error
	v := &render.Stream{
		Open: render.Facts{"path", root}, List: "transactions",
		Columns: []render.Column{{Header: "time", Width: 24}, {Header: "session", Width: 18}, {Header: "zxid", Width: 12}, {Header: "type", Width: 15}, {Header: "path"}},
		Items: func(yield func(render.Item) bool) {
			for t, err := range l.Txns() {
				if failed = err; err != nil {
					return
				}
				if affects(t, root) && !yield(&logItem{t, data}) {
					return
				}
			}
		},
		End: func() error { return failed },
	}
	if data {
		v.Columns[len(v.Columns)-1].Width = 1
		v.Columns = append(v.Columns, render.Column{Header: "data"})
	}
	if err := env.Screen.Print(v); err != nil {
		return err
	}
	if torn := (*dump.TornError)(nil); errors.As(failed, &torn) {
		env.Screen.Note(torn.Error())
		return nil
	}
	return failed
}

// affects reports whether a transaction affects a znode at or below root.
func affects(t *dump.Txn, root string) bool {
	if root == "/" || t.Path != "" && dump.Within(t.Path, root) {
		return true
	}
	for _, path := range t.Gone {
		if dump.Within(path, root) {
			return true
		}
	}
	return false
}

var _ render.Item = (*logItem)(nil)

// logItem is one transaction in the output of the command log.
type logItem struct {
	*dump.Txn
	data bool
}

// txnNames maps transaction types to names. If zkCli has a command for the type, the name is that
// of the command.
var txnNames = map[int32]string{
	jute.OpCreate: "create", jute.OpCreate2: "create", jute.OpCreateContainer: "create", jute.OpCreateTTL: "create",
	jute.OpDelete: "delete", jute.OpDeleteContainer: "deleteContainer", jute.OpSetData: "set", jute.OpSetACL: "setAcl", jute.OpCheck: "check",
	jute.OpReconfig: "reconfig", dump.TxnCreateSession: "session", dump.TxnCloseSession: "close", dump.TxnError: "refused",
}

// typeName returns the name of the transaction's type. For a create, the name includes the flag
// that selects the kind of the new znode.
func (l *logItem) typeName() string {
	name := txnNames[l.Type]
	switch {
	case name == "":
		return "type " + strconv.Itoa(int(l.Type))
	case l.Kind == dump.Ephemeral:
		return name + " -e"
	case l.Kind == dump.Container:
		return name + " -c"
	case l.Kind == dump.TTL:
		return name + " -t " + strconv.FormatInt(l.TTL.Milliseconds(), 10)
	}
	return name
}

func (l *logItem) Cells() []string {
	path := l.Path
	if path == "" {
		path = strings.Join(l.Gone, " ")
	}
	cells := []string{render.Time(l.Time), render.Hex(l.Session), render.Hex(l.Zxid), l.typeName(), render.OneLine(path)}
	if l.data {
		text := "-"
		if l.Data != nil {
			text = strconv.Quote(string(l.Data))
		}
		cells = append(cells, text)
	}
	return cells
}

func (l *logItem) JSON() any {
	facts := render.Facts{"time", render.Time(l.Time), "session", render.Hex(l.Session), "cxid", l.Cxid, "zxid", render.Hex(l.Zxid), "type", l.typeName()}
	if l.Part > 0 {
		facts = append(facts, "part", l.Part)
	}
	if l.Path != "" {
		facts = append(facts, "path", l.Path)
	}
	if l.Gone != nil {
		facts = append(facts, "ephemerals", l.Gone)
	}
	if l.data && l.Data != nil {
		facts = append(facts, "data", render.Data(l.Data))
	}
	if txnNames[l.Type] == "set" || txnNames[l.Type] == "setAcl" {
		facts = append(facts, "version", l.Version)
	}
	if l.Type == dump.TxnError {
		facts = append(facts, "code", l.Err)
	}
	return facts
}
