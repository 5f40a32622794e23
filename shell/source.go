package shell

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/shell/batch"
)

func (s *Shell) sourceCommand() *commands.Command {
	return &commands.Command{
		Name: "source", Group: "Shell", Effect: commands.Offline | commands.Quotas, Args: "file",
		Summary: "run the commands in a file",
		Help: "source runs the lines of the file one after the other. If a line fails, source prints the line number " +
			"and continues. The exit status is that of the first failed line.\n\n" +
			"If a file runs itself, or if more than 16 files run each other, source ends the script.",
		Examples: []string{"source setup.zk", "source ~/cleanup.zk"},
		Params:   []commands.Param{{Name: "file", Kind: commands.File}},
		Flags:    commands.NoFlags(s.source),
	}
}

// maxSources is the maximum nesting depth of the source command.
const maxSources = 16

// source runs the source command: it runs the lines of a file like those of a script, but one at a
// time and with the Env of the line that contains the source command.
func (s *Shell) source(ctx context.Context, env *commands.Env, args []string) error {
	f, err := userfile.OpenToRead(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	running := func(earlier fs.FileInfo) bool { return os.SameFile(earlier, info) }
	switch {
	case slices.ContainsFunc(env.Sources, running):
		return batch.Endless(fmt.Errorf("%s is running already, so it would run itself again and again", args[0]))
	case len(env.Sources) >= maxSources:
		return batch.Endless(fmt.Errorf("%s is nested more than %d files deep", args[0], maxSources))
	}
	own := *env
	own.Script, own.Sources = args[0], append(slices.Clip(env.Sources), info)
	// as with -f, a script saves nothing for undo
	if env.Mode == commands.OneShot && own.Recorder != nil && !own.Recorder.Required() {
		own.Recorder = nil
	}
	return s.newBatch(args[0]).Source(ctx, f, func(ctx context.Context, line string) (string, error) {
		return s.runText(ctx, &own, line)
	})
}
