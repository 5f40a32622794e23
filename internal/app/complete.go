package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/playground"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell"
)

// CompleteWord is the first argument of zksh when it is called by the completion script of another
// shell. The second argument is the name of that shell. The environment variable COMP_LINE contains
// the typed line.
const CompleteWord = "__complete"

// Time limits of completion in other shells. They are short, because the user waits at each Tab.
const (
	completeLimit = 180 * time.Millisecond      // for the whole completion, except the start of the program
	answerLimit   = 150 * time.Millisecond      // for connecting and receiving the server's reply
	closeLimit    = completeLimit - answerLimit // for closing the session
	// session timeout, after which the session expires if it cannot be closed
	leftoverTimeout = time.Second
)

// Complete returns the completions for another shell. args are the arguments after CompleteWord.
// The first line of the result is "files" if the shell should complete the names of files, "done"
// if some proposed word is complete, or "more" if every word can be continued. The other lines
// contain one word each, followed by a tab and a description if it has one. If there are no
// completions, for any reason, the result is empty.
func Complete(args []string, env Environment, table [][]*commands.Command) string {
	return withinTime(func(ctx context.Context) string { return complete(ctx, args, env, table) })
}

// withinTime returns the result of work, or an empty string if work does not return within
// completeLimit. work runs in a goroutine, which ends when its context expires. If it is blocked
// in a name lookup or in reading a file, it ends with the process.
func withinTime(work func(ctx context.Context) string) string {
	ctx, cancel := context.WithTimeout(context.Background(), completeLimit)
	defer cancel()
	answer := make(chan string, 1)
	go func() { answer <- work(ctx) }()
	select {
	case text := <-answer:
		return text
	case <-ctx.Done():
		return ""
	}
}

func complete(ctx context.Context, args []string, env Environment, table [][]*commands.Command) string {
	args = append(args, "", "") // defaults for the name of the shell and for bash's word breaks
	t := readTyped(env.Getenv("COMP_LINE"), args[1], args[0] == "fish")
	// Continue even if the options are invalid, because the user may still be typing an option, and
	// because many completions need no options.
	asked := &znodeLister{}
	asked.opts, asked.err = ParseOptions(t.options(), env)
	sh := shell.New(shell.Config{Commands: append(slices.Clone(table), pagesAsCommands()),
		Clusters: asked.opts.Clusters()})
	list, files := sh.Propose(ctx, program(&asked.opts, t.text), t.words, t.text, asked.names)
	if files {
		return "files\n"
	}
	var b strings.Builder
	kind := "more\n"
	for _, x := range list {
		word, ok := x.Word, true
		if args[0] == "bash" {
			word, ok = t.bashWord(word)
		}
		if !ok {
			continue
		}
		if !x.Extendable {
			kind = "done\n"
		}
		b.WriteString(strings.TrimSuffix(word+"\t"+x.About, "\t") + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return kind + b.String()
}

// options returns the program options on the typed line, followed by the name of a cluster (@NAME)
// if the line contains one. It removes that name from t.words.
func (t *typedLine) options() (own []string) {
	none := defaults()
	zksh := program(&none, "")
	first, inner := zksh.SplitProgram(t.words)
	// the user is typing the value of the last option
	if _, flag, _ := zksh.Position(first); flag != nil && len(inner) == 0 {
		first = first[:len(first)-1]
	}
	for _, w := range first {
		own = append(own, w.Text)
	}
	if len(inner) > 0 && strings.HasPrefix(inner[0].Text, zkconn.ClusterMark) {
		own = append(own, inner[0].Text)
		t.words = slices.Delete(slices.Clone(t.words), len(first), len(first)+1)
	}
	return own
}

// program describes zksh itself as a command, for completion. text is the word at the cursor. If
// text begins with @, it is completed as the name of a cluster, and otherwise as the name of a zksh
// command.
func program(o *Options, text string) *commands.Command {
	next := commands.Param{Name: "command", Kind: commands.CommandName}
	if strings.HasPrefix(text, zkconn.ClusterMark) {
		next.Kind = commands.Server
	}
	return &commands.Command{Name: "zksh", Params: []commands.Param{next}, Flags: func(fs *pflag.FlagSet) commands.Run {
		known := *o
		set, _ := declare(&known)
		fs.AddFlagSet(set)
		return nil
	}}
}

// A znodeLister lists the children of znodes for completion. It connects to the servers that the
// options on the typed line name.
type znodeLister struct {
	opts Options
	err  error // error in the options, or nil if they are valid
}

// names returns the names of the children of a znode. It opens a new session for this. It uses a
// running sandbox, but never starts one.
func (a *znodeLister) names(ctx context.Context, path string) ([]string, error) {
	if a.err != nil {
		return nil, a.err
	}
	cfg := a.opts.Connection()
	if a.opts.Load != "" {
		return nil, errors.New("the file is not loaded to complete a path")
	}
	if a.opts.Sandbox {
		if cfg.Servers = playground.Running(a.opts.SandboxDir); cfg.Servers == "" {
			return nil, errors.New("no sandbox is running")
		}
	}
	cfg.Timeout, cfg.NoEvents = min(cfg.Timeout, leftoverTimeout), true
	s, err := zkconn.Open(cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		_ = s.Close(bye) // if this fails, the session soon expires
	}()
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	list, err := zkconn.Do(ctx, s, zkconn.List(path))
	slices.Sort(list.Names)
	return list.Names, err
}
