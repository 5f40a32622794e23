package dump

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A data folder of a server has snapshots, and logs of the transactions since; both stand in
// it or in its folder version-2. As a server does at its start, the newest snapshot that can
// be read is taken, and the transactions behind its number are carried out (FileTxnSnapLog of
// ZooKeeper).

// versionDir is where servers keep both.
const versionDir = "version-2"

// numbered is a snapshot or a log.
type numbered struct {
	name string
	zxid int64 // a snapshot has all up to it; a log begins with it
}

// numberedIn lists the files of a kind, the oldest first.
func numberedIn(dir, kind string) (list []numbered, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), kind+".") && !e.IsDir() {
			list = append(list, numbered{filepath.Join(dir, e.Name()), zxidOf(e.Name(), kind)})
		}
	}
	slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(a.zxid, b.zxid) })
	return list, err
}

// dataDirOf returns the folder with the snapshots, if name is a server's data folder.
func dataDirOf(name string) (dir string, is bool) {
	for _, dir := range []string{name, filepath.Join(name, versionDir)} {
		if list, err := numberedIn(dir, "snapshot"); err == nil && len(list) > 0 {
			return dir, true
		}
	}
	return "", false
}

// readDataDir reads what a server that started with this folder would have.
func readDataDir(ctx context.Context, dir string, options []Option) (*Tree, error) {
	snapshots, err := numberedIn(dir, "snapshot")
	if err != nil {
		return nil, err
	}
	var failed error
	for _, s := range slices.Backward(snapshots) {
		t, err := open(ctx, s.name, options)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			failed = errors.Join(failed, err)
			continue
		}
		return withLogs(ctx, t, dir, s, options)
	}
	return nil, failed
}

// withLogs is the tree of a snapshot with what the logs behind it say. It closes t unless it
// returns it.
func withLogs(ctx context.Context, t *Tree, dir string, s numbered, options []Option) (_ *Tree, err error) {
	logs, err := numberedIn(dir, "log")
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	first := 0
	for i, l := range logs {
		if l.zxid <= s.zxid { // and may go on behind the snapshot
			first = i
		}
	}
	if logs = logs[first:]; len(logs) == 0 {
		return t, nil
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	file := newCounted(ctx, nil, options)
	for _, f := range append(slices.Clone(logs), s) {
		info, err := os.Stat(f.name)
		if err != nil {
			return nil, err
		}
		file.bytes += info.Size()
	}
	r := newReplay(t, newBuilder(Snapshot, file), s.zxid)
	for _, l := range logs {
		if err := r.log(ctx, l.name); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", l.name, err), r.b.t.Close())
		}
	}
	made, err := r.done(ctx)
	if err != nil {
		return nil, errors.Join(err, r.b.t.Close())
	}
	return made, nil
}

// log carries out the transactions of a log. It may end in the middle of a record, as that of a
// server which runs does.
func (r *replay) log(ctx context.Context, name string) error {
	l, err := openLog(ctx, name)
	if err != nil {
		return err
	}
	r.begins = true
	for t, txnErr := range l.Txns() {
		if errors.As(txnErr, new(*TornError)) {
			break
		}
		if err = cmp.Or(txnErr, ctx.Err()); err == nil {
			err = r.apply(t)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, l.Close())
}
