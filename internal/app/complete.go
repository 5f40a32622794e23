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

// CompleteWord is what other shells call zksh with, and with their own name, for what the
// line in COMP_LINE may become.
const CompleteWord = "__complete"

// Bounds of completing in other shells. A person waits for it at each Tab.
const (
	completeWithin = 180 * time.Millisecond // all of it; the program has to start, too
	answerWithin   = 150 * time.Millisecond // connecting, and the server's answer
	goodbyeWithin  = completeWithin - answerWithin
	leftover       = time.Second // the timeout of a session that could not be closed, as far as the server grants it
)

// Complete answers another shell, args being what follows CompleteWord: first comes what is to
// be known of the words (files: they are names of files, which are the shell's; more: they go
// on; done: they do not), then a word in each line, with what it is about behind a tab. It
// says nothing where there is nothing to say, whatever the reason.
func Complete(args []string, env Environment, table [][]*commands.Command) string {
	return bounded(func(ctx context.Context) string { return complete(ctx, args, env, table) })
}

// bounded leaves work that does not end in time. Its goroutine ends with its context; where
// a name is looked up, or a file is read, with the process.
func bounded(work func(ctx context.Context) string) string {
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
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
	args = append(args, "", "") // the shell, and bash's breaks between words
	t := readTyped(env.Getenv("COMP_LINE"), args[1], args[0] == "fish")
	// Options that are wrong so far, or are not finished, are no reason to propose nothing.
	asked := &asker{}
	asked.opts, asked.err = ParseOptions(t.options(), env)
	sh := shell.New(shell.Config{Commands: append(slices.Clone(table), asCommands()), Clusters: asked.opts.Clusters()})
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
		if !x.GoesOn {
			kind = "done\n"
		}
		b.WriteString(strings.TrimSuffix(word+"\t"+x.About, "\t") + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return kind + b.String()
}

// options are the words of the line that are the program's: its options, and a cluster,
// which is taken out of the words.
func (t *typed) options() (own []string) {
	none := defaults()
	zksh := program(&none, "")
	first, inner := zksh.CutOver(t.words)
	if _, flag, _ := zksh.Position(first); flag != nil && len(inner) == 0 { // its value is under way
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

// program is zksh as a command over those of the shell, where this text may be the next word.
func program(o *Options, text string) *commands.Command {
	next := commands.Param{Name: "command", Kind: commands.CommandName}
	if strings.HasPrefix(text, zkconn.ClusterMark) {
		next.Kind = commands.Server
	}
	return &commands.Command{Name: "zksh", Params: []commands.Param{next}, Over: func(fs *pflag.FlagSet) commands.Around {
		known := *o
		set, _ := declare(&known)
		fs.AddFlagSet(set)
		return nil
	}}
}

// asker asks the ensemble that a line is about.
type asker struct {
	opts Options
	err  error // of the options
}

// names lists a znode, in a session of its own. It starts no sandbox.
func (a *asker) names(ctx context.Context, path string) ([]string, error) {
	if a.err != nil {
		return nil, a.err
	}
	cfg := a.opts.Connection()
	if a.opts.Sandbox {
		if cfg.Servers = playground.Running(a.opts.SandboxDir); cfg.Servers == "" {
			return nil, errors.New("no sandbox is running")
		}
	}
	cfg.Timeout, cfg.NoEvents = min(cfg.Timeout, leftover), true
	s, err := zkconn.Open(cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.Background(), goodbyeWithin)
		defer cancel()
		_ = s.Close(bye) // the answer is there; what is left over ends by itself
	}()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	list, err := zkconn.Do(ctx, s, zkconn.List(path))
	slices.Sort(list.Names)
	return list.Names, err
}
