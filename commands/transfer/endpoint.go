package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// endpoint is the source or the destination of a command: a subtree in an ensemble or in a file.
type endpoint struct {
	commands.Place
	word    string // the argument as the user typed it
	session *zkconn.Session
	tree    *dump.Tree // contents of the file, or nil for a subtree in an ensemble
}

// target returns the endpoint as the target of edits, which rec records.
func (s *endpoint) target(rec zktree.Recorder) zktree.Target {
	return zktree.Target{Path: s.Path, Name: s.word, Recorder: rec}
}

// endpoints opens the sources and destinations of one command. For each ensemble other than the
// shell's own, it opens one session. The method close closes these sessions.
type endpoints struct {
	env    *commands.Env
	opened map[string]*zkconn.Session // sessions with other ensembles, with Place.Spec as the key
	trees  []*dump.Tree               // contents of the files that have been opened
}

// open opens one endpoint for each of the words. The caller must call close, even if open returns
// an error.
func (ss *endpoints) open(ctx context.Context, words ...string) ([]*endpoint, error) {
	list := make([]*endpoint, len(words))
	for i, word := range words {
		s := &endpoint{Place: commands.ParsePlace(word), word: word}
		open := ss.connect
		if s.File != "" {
			open = ss.openFile
		}
		if err := open(ctx, s); err != nil {
			return nil, err
		}
		list[i] = s
	}
	return list, nil
}

func (ss *endpoints) openFile(ctx context.Context, s *endpoint) (err error) {
	if s.tree, err = dump.Open(ctx, s.File); err != nil {
		return err
	}
	ss.trees = append(ss.trees, s.tree)
	if s.Path == "" {
		s.Path = s.tree.Root()
	}
	if !s.tree.Has(s.Path) {
		return fmt.Errorf("the file %s does not contain %s; it contains only %s and its descendants", s.File, s.Path, s.tree.Root())
	}
	return nil
}

func (ss *endpoints) connect(ctx context.Context, s *endpoint) error {
	if s.Spec == "" && !strings.HasPrefix(s.word, "/") {
		return commands.Misuse("%q is not a path; write @cluster:/path or host:port:/path for a znode in another ensemble, or ./FILE or file:FILE for a file", s.word)
	}
	if err := zkconn.ValidatePath(s.Path, false); err != nil {
		return err
	}
	main := ss.env.Session
	if s.session = ss.opened[s.Spec]; s.session != nil {
		return nil
	}
	if s.session = main; s.Spec == "" || main.Names(s.Spec) {
		return nil
	}
	if !strings.HasPrefix(s.Spec, zkconn.ClusterMark) {
		if _, err := zkconn.ParseServers(s.Spec); err != nil {
			return commands.Misuse("%s", err)
		}
	}
	other, err := main.Elsewhere(ctx, s.Spec)
	if err != nil {
		return err
	}
	s.session = other
	if ss.opened == nil {
		ss.opened = map[string]*zkconn.Session{}
	}
	ss.opened[s.Spec] = other
	for _, remark := range other.Secure().Remarks {
		ss.env.Screen.Note(remark)
	}
	if err := other.Ready(ctx); err != nil {
		return s.wrap(err)
	}
	return nil
}

// checkComplete returns an error if the endpoint is an incomplete file. Such a file lacks znodes
// that could not be read when it was written.
func (s *endpoint) checkComplete() error {
	if s.tree == nil {
		return nil
	}
	if err := s.tree.Trailer.Lacks(); err != nil {
		return fmt.Errorf("%s: %w", s.word, err)
	}
	return nil
}

// close closes all sessions and files that were opened, even if ctx has been cancelled.
func (ss *endpoints) close(ctx context.Context) error {
	var errs []error
	for spec, s := range ss.opened {
		if err := commands.CleanUp(ctx, s.Close); err != nil {
			errs = append(errs, fmt.Errorf("cannot close the session with %s: %w", spec, err))
		}
	}
	for _, t := range ss.trees {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// withEndpoints opens the endpoints that the words name, calls do with them, and closes them.
func withEndpoints(
	ctx context.Context, env *commands.Env, words []string, do func(list []*endpoint) error,
) (err error) {
	ss := &endpoints{env: env}
	defer func() {
		if closed := ss.close(ctx); closed != nil {
			err = errors.Join(err, closed)
		}
	}()
	list, err := ss.open(ctx, words...)
	if err != nil {
		return err
	}
	return do(list)
}

// rejectFiles returns an error if one of the words names a file. It is for arguments that must name
// a path in an ensemble.
func rejectFiles(command string, words ...string) error {
	for _, word := range words {
		if commands.ParsePlace(word).File != "" {
			return commands.Misuse("%s works only on znodes, but %s names a file; to read a file, use import; to name a znode, begin its path with /, or go to its parent with cd and write only its name",
				command, word)
		}
	}
	return nil
}

// sameEnsemble reports whether two endpoints are in the same ensemble. It also returns their server
// paths.
//
// If the connect strings share no server, sameEnsemble compares the contents of the ensembles. They
// are the same ensemble if one transaction created the same znode in both and their last zxids
// agree. The zxids rule out a copy of an ensemble: it contains the same znodes, but has since
// processed other transactions.
func sameEnsemble(ctx context.Context, src, dst *endpoint) (from, to string, same bool, err error) {
	from, to = src.session.ServerPath(src.Path), dst.session.ServerPath(dst.Path)
	if shareServer(src.session, dst.session) {
		return from, to, true, nil
	}
	before, err := src.lastZxid(ctx)
	if err != nil {
		return from, to, false, err
	}
	during, err := dst.lastZxid(ctx)
	if err != nil {
		return from, to, false, err
	}
	after, err := src.lastZxid(ctx)
	if err != nil || during < before || during > after {
		return from, to, false, err
	}
	made, err := src.creationStat(ctx, from)
	if err != nil || made == nil {
		return from, to, false, err
	}
	theirs, err := dst.creationStat(ctx, from)
	same = err == nil && theirs != nil && made.Czxid == theirs.Czxid && made.Ctime == theirs.Ctime
	return from, to, same, err
}

// shareServer reports whether the connect strings of two sessions have a server in common. Behind
// different proxies, the same name can stand for different servers.
func shareServer(a, b *zkconn.Session) bool {
	return a == b || a.SameProxy(b) && zkconn.Overlap(a.Servers().Hosts, b.Servers().Hosts)
}

// lastZxid returns the last zxid of the endpoint's ensemble. Writes that other clients make during
// the call can increase the result.
func (s *endpoint) lastZxid(ctx context.Context) (int64, error) {
	if err := zkconn.Exec(ctx, s.session.Absolute(), zkconn.Sync("/")); err != nil {
		return 0, s.wrap(err)
	}
	zxid, err := zkconn.Do(ctx, s.session, zkconn.Zxid())
	return zxid, s.wrap(err)
}

// creationStat returns a stat whose czxid and ctime identify the creation of a znode. path is the
// path on the server, including the chroot. No transaction created the root znode, so for "/",
// creationStat returns the stat of a child. It returns nil if there is no such znode, or if the
// server rejects the request.
func (s *endpoint) creationStat(ctx context.Context, path string) (*zk.Stat, error) {
	c := s.session.Absolute()
	if path == "/" {
		list, err := zkconn.Do(ctx, c, zkconn.List("/"))
		if err != nil {
			return nil, ignoreRejection(s.wrap(err))
		}
		list.Names = slices.DeleteFunc(list.Names, func(name string) bool { return "/"+name == reserved })
		if len(list.Names) == 0 {
			return nil, nil
		}
		path = "/" + slices.Min(list.Names)
	}
	st, err := zkconn.Do(ctx, c, zkconn.Exists(path))
	if err != nil {
		return nil, ignoreRejection(s.wrap(err))
	}
	return st, nil
}

// ignoreRejection returns nil if err means that a server rejected the request. It returns other
// errors unchanged.
func ignoreRejection(err error) error {
	if errors.As(err, new(*zkconn.Error)) {
		return nil
	}
	return err
}

// ensembleError is an error that occurred in an ensemble other than the shell's own.
type ensembleError struct {
	spec  string
	cause error
}

func (e *ensembleError) Error() string { return e.spec + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *ensembleError) Unwrap() error { return e.cause }

// wrap adds the name of the endpoint's ensemble to an error. It leaves an error unchanged if it
// already names an ensemble, or if the endpoint is in the shell's own ensemble.
func (s *endpoint) wrap(err error) error {
	if err == nil || s.Spec == "" || errors.As(err, new(*ensembleError)) {
		return err
	}
	return &ensembleError{s.Spec, err}
}

// checkSeparate returns an error if the subtrees of the source and the destination overlap.
func checkSeparate(ctx context.Context, command string, src, dst *endpoint) error {
	from, to, same, err := sameEnsemble(ctx, src, dst)
	switch {
	case err != nil:
		return err
	case !same:
		return nil
	case from == to:
		return fmt.Errorf("%s and %s are the same znode", src.word, dst.word)
	case dump.Within(to, from):
		return fmt.Errorf("%s is inside %s, so %s would never end; choose a destination outside the source", dst.word, src.word, command)
	case dump.Within(from, to):
		return fmt.Errorf("%s is inside %s, so %s would change it while reading it; choose a source outside the destination", src.word, dst.word, command)
	}
	return nil
}

// checkWrites returns an error if the user's settings do not allow writes to the endpoint's
// ensemble. For the shell's own ensemble, it returns nil, because the shell checks that itself.
func checkWrites(ctx context.Context, env *commands.Env, command string, s *endpoint) error {
	if s.Spec == "" {
		return nil
	}
	denied := func(format string, args ...any) error {
		return &commands.StatusError{Status: commands.StatusFailed, Code: "NoWrites", Err: fmt.Errorf(format, args...)}
	}
	writes := []zkconn.Writes{s.session.Writes()}
	// The setting of the shell's cluster applies even if the user typed the cluster's servers
	// instead of its name.
	if shareServer(s.session, env.Session) {
		writes = append(writes, env.Session.Writes())
	}
	switch {
	case slices.Contains(writes, zkconn.WritesNever):
		return denied("nothing was done: %w (writes = never is set for %s, or --no-write was given)", zkconn.ErrNoWrites, s.Spec)
	case !slices.Contains(writes, zkconn.WritesAsk):
		return nil
	case env.Mode != commands.ByHand:
		return denied("nothing was done, because writes on %s require confirmation (writes = ask); to confirm them in advance, add --yes", s.Spec)
	}
	return env.AskToContinue(ctx, fmt.Sprintf("%s would write to %s", command, s.word))
}

// checkNotReserved returns an error if the endpoint's path is reserved for the server's own znodes.
func checkNotReserved(s *endpoint) error {
	if dump.Within(s.session.ServerPath(s.Path), reserved) {
		return fmt.Errorf("nothing was done, because %s is reserved for the server", s.word)
	}
	return nil
}

// inOtherEnsemble reports whether the argument with this index names a path in another ensemble.
// The settings of that ensemble then determine whether the command may write.
func inOtherEnsemble(args []string, index int) bool {
	return len(args) > index && commands.ParsePlace(args[index]).Spec != ""
}

// writesTo is the Command.Except of commands that write to their second argument. If that argument
// names another ensemble, the line does not have the effect Writes, which concerns only the shell's
// own ensemble.
func writesTo(_ *pflag.FlagSet, args []string) commands.Effect {
	if inOtherEnsemble(args, 1) {
		return commands.Writes
	}
	return 0
}

// record calls change, which changes znodes at and below the endpoint, and records the changes for
// undo.
func (s *endpoint) record(ctx context.Context, env *commands.Env, command string, change commands.Change) error {
	own := *env
	own.Session = s.session
	return own.Record(ctx, command, s.Path, change)
}

// printAnswer prints the result of a command: words in text output, and the names and values in
// facts in JSON output.
func printAnswer(env *commands.Env, words string, facts ...any) error {
	return env.Screen.Print(render.Answer{Words: words + "\n", JSON: render.Facts(facts)})
}
