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
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
)

// side is a tree that a command works on: here, in another ensemble, or in a file.
type side struct {
	commands.Place
	word    string // as it was given, for messages
	session *zkconn.Session
	tree    *dump.Tree // of a file; then there is no session
}

// sides are those of one command. Each other ensemble has one session, which ends with
// the command.
type sides struct {
	env    *commands.Env
	opened map[string]*zkconn.Session
	trees  []*dump.Tree

	options []dump.Option // for reading files
}

// open makes sides of words. Whoever does closes them, whatever the error.
func (ss *sides) open(ctx context.Context, words ...string) ([]*side, error) {
	list := make([]*side, len(words))
	for i, word := range words {
		s := &side{Place: commands.ParsePlace(word), word: word}
		open := ss.connect
		if s.File != "" {
			open = ss.read
		}
		if err := open(ctx, s); err != nil {
			return nil, err
		}
		list[i] = s
	}
	return list, nil
}

func (ss *sides) read(ctx context.Context, s *side) (err error) {
	if s.tree, err = dump.Open(ctx, userfile.Home(s.File), ss.options...); err != nil {
		return err
	}
	ss.trees = append(ss.trees, s.tree)
	if s.Path == "" {
		s.Path = s.tree.Root()
	}
	if _, is := s.tree.Has(s.Path); !is {
		return fmt.Errorf("the file %s does not contain %s; it contains only %s and its descendants", s.File, s.Path, s.tree.Root())
	}
	return nil
}

func (ss *sides) connect(ctx context.Context, s *side) error {
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
	if s.session = main; s.Spec == "" || s.Spec == main.Cluster() || main.Cluster() == "" && s.Spec == main.Servers().Spec {
		return nil
	}
	if !strings.HasPrefix(s.Spec, zkconn.ClusterMark) {
		if _, err := zkconn.ParseServers(s.Spec); err != nil {
			return commands.Misuse("%s", err)
		}
	}
	other, err := main.Elsewhere(s.Spec)
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

// lacks is an error if the side is a file in which something is missing that was there.
func (s *side) lacks() error {
	if s.tree == nil {
		return nil
	}
	if err := s.tree.Lacks(); err != nil {
		return fmt.Errorf("%s: %w", s.word, err)
	}
	return nil
}

// close ends what was opened, also after Ctrl-C.
func (ss *sides) close(ctx context.Context) error {
	var errs []error
	for spec, s := range ss.opened {
		if err := commands.Closing(ctx, s.Close); err != nil {
			errs = append(errs, fmt.Errorf("cannot close the session with %s: %w", spec, err))
		}
	}
	for _, t := range ss.trees {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// within has do work on the sides that the words say, and closes them.
func within(ctx context.Context, env *commands.Env, words []string, do func(list []*side) error, options ...dump.Option) (err error) {
	ss := &sides{env: env, options: options}
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

// live is an error if one of the words names a file.
func live(command string, words ...string) error {
	for _, word := range words {
		if commands.ParsePlace(word).File != "" {
			return commands.Misuse("%s works only on znodes, but %s names a file; to read a file, use import; to name a znode, begin its path with /, or go to its parent with cd and write only its name",
				command, word)
		}
	}
	return nil
}

// overlap reports whether two sides are of one ensemble, and gives their paths there. Where
// the servers have no name in common a znode tells that was made in both by the same
// transaction, and, for copies of a whole ensemble have that as well, where its changes
// have come to.
func overlap(ctx context.Context, src, dst *side) (from, to string, same bool, err error) {
	from, to = src.session.ServerPath(src.Path), dst.session.ServerPath(dst.Path)
	if shareServer(src.session, dst.session) {
		return from, to, true, nil
	}
	before, err := src.upTo(ctx)
	if err != nil {
		return from, to, false, err
	}
	there, err := dst.upTo(ctx)
	if err != nil {
		return from, to, false, err
	}
	after, err := src.upTo(ctx)
	if err != nil || there < before || there > after {
		return from, to, false, err
	}
	made, err := src.made(ctx, from)
	if err != nil || made == nil {
		return from, to, false, err
	}
	theirs, err := dst.made(ctx, from)
	same = err == nil && theirs != nil && made.Czxid == theirs.Czxid && made.Ctime == theirs.Ctime
	return from, to, same, err
}

// shareServer reports whether two sessions are of one ensemble by the names of its servers.
func shareServer(a, b *zkconn.Session) bool {
	return a == b || zkconn.Overlap(a.Servers().Hosts, b.Servers().Hosts)
}

// upTo is the number of the ensemble's last change, or of a later one.
func (s *side) upTo(ctx context.Context) (int64, error) {
	if err := zkconn.Exec(ctx, s.session.Absolute(), zkconn.Sync("/")); err != nil {
		return 0, s.wrap(err)
	}
	zxid, err := zkconn.Do(ctx, s.session, zkconn.Zxid())
	return zxid, s.wrap(err)
}

// made is the Stat of a znode, by its path on the server, and for the root, which nobody
// has made, of the first below it. nil: there is none that tells.
func (s *side) made(ctx context.Context, path string) (*zk.Stat, error) {
	c := s.session.Absolute()
	if path == "/" {
		list, err := zkconn.Do(ctx, c, zkconn.List("/"))
		if err != nil {
			return nil, unlessRefused(s.wrap(err))
		}
		list.Names = slices.DeleteFunc(list.Names, func(name string) bool { return "/"+name == reserved })
		if len(list.Names) == 0 {
			return nil, nil
		}
		path = "/" + slices.Min(list.Names)
	}
	st, err := zkconn.Do(ctx, c, zkconn.Exists(path))
	if err != nil {
		return nil, unlessRefused(s.wrap(err))
	}
	return st, nil
}

// unlessRefused leaves of an error what is no refusal of a server.
func unlessRefused(err error) error {
	if errors.As(err, new(*zkconn.Error)) {
		return nil
	}
	return err
}

// farError is one of another ensemble than the shell's own.
type farError struct {
	spec  string
	cause error
}

func (e *farError) Error() string { return e.spec + ": " + e.cause.Error() }

// Unwrap gives the cause.
func (e *farError) Unwrap() error { return e.cause }

// wrap says of which ensemble an error is, if it is not the shell's own, and if the error
// does not: that of a copy may be of either side.
func (s *side) wrap(err error) error {
	if err == nil || s.Spec == "" || errors.As(err, new(*farError)) {
		return err
	}
	return &farError{s.Spec, err}
}

// apart is an error if one of the sides is inside the other.
func apart(ctx context.Context, command string, src, dst *side) error {
	from, to, same, err := overlap(ctx, src, dst)
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

// mayWrite is an error unless the other ensemble of a side may be written to. For the
// shell's own the shell sees to it.
func mayWrite(ctx context.Context, env *commands.Env, command string, s *side) error {
	if s.Spec == "" {
		return nil
	}
	denied := func(format string, args ...any) error {
		return &commands.StatusError{Status: commands.StatusFailed, Code: "NoWrites", Err: fmt.Errorf(format, args...)}
	}
	writes := []zkconn.Writes{s.session.Writes()}
	if shareServer(s.session, env.Session) { // by its servers a cluster is no less protected than by its name
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
	return env.Leave(ctx, fmt.Sprintf("%s would write to %s", command, s.word))
}

// notOwn is an error if a side is the server's own.
func notOwn(s *side) error {
	if dump.Within(s.session.ServerPath(s.Path), reserved) {
		return fmt.Errorf("nothing was done, because %s is reserved for the server", s.word)
	}
	return nil
}

// elsewhere reports whether a word names another ensemble. Its own settings decide whether a
// command may write there.
func elsewhere(args []string, i int) bool {
	return len(args) > i && commands.ParsePlace(args[i]).Spec != ""
}

// writesTo is the Except of a command that writes to the place of its second word.
func writesTo(_ *pflag.FlagSet, args []string) commands.Effect {
	if elsewhere(args, 1) {
		return commands.Writes
	}
	return 0
}

// losing has a side kept before it is changed, if it is there.
func losing(ctx context.Context, env *commands.Env, command string, dst *side, change func(context.Context) error) error {
	if err := zkconn.Exec(ctx, dst.session, zkconn.Exists(dst.Path)); errors.Is(err, zkconn.NoNode) {
		return change(ctx)
	}
	there := *env
	there.Session = dst.session
	loss := commands.Loss{Command: command, Path: dst.Path, Of: commands.LostParts, Version: -1}
	return there.Losing(ctx, loss, func(ctx context.Context, _ int32) error { return change(ctx) })
}

// answer prints what a command has done, in words and facts.
func answer(env *commands.Env, words string, facts ...any) error {
	return env.Screen.Print(render.Answer{Words: words + "\n", JSON: render.Facts(facts)})
}
