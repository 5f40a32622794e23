package commands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// reader is where znodes are looked at: a session, or a kept tree.
type reader interface {
	Get(ctx context.Context, path string, watch bool) ([]byte, *zk.Stat, error)
	Exists(ctx context.Context, path string, watch bool) (*zk.Stat, error)
	Children(ctx context.Context, path string, watch bool) ([]string, *zk.Stat, error)
	ACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error)
}

// DryRun is the flag of commands that write, with which they write nothing.
const DryRun = "dry-run"

// inFlag names the file that takes the place of the server.
const inFlag = "in"

// looking declares --in, and has run look where it says.
func looking(fs *pflag.FlagSet, run func(ctx context.Context, env *Env, from reader, args []string) error) Run {
	name := fs.String(inFlag, "", "read this `file` instead of asking the server: an export, a ZooKeeper snapshot, or a server's data folder")
	FlagFile(fs, inFlag)
	most := FlagMaxSize(fs)
	return func(ctx context.Context, env *Env, args []string) error {
		if !fs.Changed(inFlag) {
			return run(ctx, env, env.Session, args)
		}
		if fs.Changed("watch") {
			return Misuse("-w cannot be combined with --in, because a file never changes")
		}
		t, err := dump.Open(ctx, userfile.Home(*name), most())
		if err != nil {
			return err
		}
		return cmp.Or(run(ctx, env, &keptReader{zktree.OnFile(t), t, *name}, args), t.Close())
	}
}

// FlagMaxSize declares --max-size, which raises the limit of what a dump may expand to.
func FlagMaxSize(fs *pflag.FlagSet) func() dump.Option {
	mib := fs.Uint32("max-size", 0, "let the expanded file take at most this many `MiB` in memory and the same amount on disk; by default, the limit depends on the file's size")
	return func() dump.Option { return dump.MaxSize(int64(*mib) << 20) }
}

// keptReader looks into a kept tree.
type keptReader struct {
	*zktree.Kept
	tree *dump.Tree
	name string
}

// Get is part of reader.
func (k *keptReader) Get(_ context.Context, path string, _ bool) ([]byte, *zk.Stat, error) {
	z, err := k.znode(path)
	if err != nil {
		return nil, nil, err
	}
	return z.Data, z.Stat, nil
}

// Exists is part of reader. A form may keep no Stats.
func (k *keptReader) Exists(_ context.Context, path string, _ bool) (*zk.Stat, error) {
	z, err := k.znode(path)
	if err != nil {
		return nil, err
	}
	return z.Stat, nil
}

// Children is part of reader.
func (k *keptReader) Children(_ context.Context, path string, _ bool) ([]string, *zk.Stat, error) {
	z, err := k.znode(path)
	if err != nil {
		return nil, nil, err
	}
	names, _ := k.tree.Names(path)
	return names, z.Stat, nil
}

// ACL is part of reader.
func (k *keptReader) ACL(_ context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	z, err := k.znode(path)
	switch {
	case err != nil:
		return nil, nil, err
	case z.ACL == nil:
		return nil, nil, fmt.Errorf("the file %s does not contain the ACL of %s", k.name, path)
	}
	return z.ACL, z.Stat, nil
}

// printStat is stat's answer: what the file knows of a znode besides its Stat comes
// first.
func (k *keptReader) printStat(env *Env, path string, human bool) error {
	z, err := k.znode(path)
	if err != nil {
		return err
	}
	facts := render.Facts{"kind", z.Kind.String()}
	if z.Kind == dump.TTL {
		facts = append(facts, "ttl", z.TTL.Milliseconds())
	}
	a := render.Answer{Words: facts.Text(), Stat: (*render.Stat)(z.Stat), JSON: append(facts, "stat", (*render.Stat)(z.Stat))}
	if human && z.Stat != nil {
		a.Words, a.Stat = a.Words+(*render.Stat)(z.Stat).Human(time.Now()).Words, nil
	}
	if z.Stat == nil {
		env.Screen.Note(k.name + " contains no stats")
	}
	return env.Screen.Print(a)
}

func (k *keptReader) znode(path string) (*dump.Znode, error) {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return nil, err
	}
	z, err := k.Kept.Get(path)
	return z, k.explain(err)
}

// explain says of which tree it is that a znode is not in.
func (k *keptReader) explain(err error) error {
	if errors.Is(err, zkconn.NoNode) {
		return fmt.Errorf("%w (%s contains only %s and its descendants)", err, k.name, k.tree.Root())
	}
	return err
}

// SaveFile writes all of the data, or leaves a regular file as it was. A new file is for
// the user alone. A link is followed and a file keeps its mode; what is no regular file (a terminal, a
// FIFO) is written to.
func SaveFile(name string, data []byte) error {
	name = userfile.Home(name)
	mode := os.FileMode(0o600)
	switch info, err := os.Stat(name); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		f, err := userfile.OpenToWrite(name, 0, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	default:
		mode = info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	return userfile.Replace(name, data, mode)
}

// maxInput is the largest data taken from a file; a server takes about a
// megabyte unless its jute.maxbuffer is raised.
const maxInput = 64 << 20

// LoadFile reads a file, or with - the standard input of a program that runs one command.
func LoadFile(ctx context.Context, env *Env, name string) ([]byte, error) {
	open := func() (io.Reader, error) { return userfile.OpenToRead(userfile.Home(name)) }
	if name == "-" {
		if env.Stdin == nil {
			return nil, Misuse("-f - cannot read the data from standard input, because zksh reads its commands from there; specify a file")
		}
		open = func() (io.Reader, error) { return env.Stdin, nil }
	}
	data, err := readInput(ctx, open)
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes; no server accepts that much data", name, maxInput)
	}
	return data, err
}

// readInput reads all there is, until ctx ends.
func readInput(ctx context.Context, open func() (io.Reader, error)) ([]byte, error) {
	return userfile.UnlessLeft(ctx, func() ([]byte, error) {
		r, err := open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
		if f, ok := r.(*os.File); ok && f != os.Stdin {
			err = errors.Join(err, f.Close())
		}
		return data, err
	})
}

// decodeBase64 reads the standard alphabet; padding may be missing, and line
// ends are passed over.
func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("\r", "", "\n", "").Replace(s), "=")
	b, err := base64.RawStdEncoding.DecodeString(s)
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

// hexDump is netty's dump, as zkCli does: a head, 16 bytes a line, a foot.
func hexDump(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	const head = "         +-------------------------------------------------+\n" +
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"
	const rule = "+--------+-------------------------------------------------+----------------+"
	out := []byte(head + rule + "\n")
	for at := 0; at < len(data); at += 16 {
		row := data[at:min(at+16, len(data))]
		shown := bytes.Clone(row)
		for i, b := range shown {
			if b <= 0x1f || b >= 0x7f {
				shown[i] = '.'
			}
		}
		out = fmt.Appendf(out, "|%08x| %-47s |%-16s|\n", at, fmt.Sprintf("% x", row), shown)
	}
	return string(append(out, rule...))
}
