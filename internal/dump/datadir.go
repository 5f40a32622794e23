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

// The data directory of a server contains snapshots and transaction logs, either directly or in its
// subdirectory version-2. readDataDir loads the tree like a server that starts (class
// FileTxnSnapLog): it reads the newest readable snapshot and applies the transactions after it.

// versionDir is the subdirectory in which servers store snapshots and logs.
const versionDir = "version-2"

// A serverFile is a snapshot or a transaction log of a server.
type serverFile struct {
	name string
	zxid int64 // zxid in the file name; a snapshot contains all changes up to it, and a log starts with it
}

// serverFiles lists the files of one kind ("snapshot" or "log"), oldest first.
func serverFiles(dir, kind string) (list []serverFile, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), kind+".") && !e.IsDir() {
			list = append(list, serverFile{filepath.Join(dir, e.Name()), zxidOf(e.Name(), kind)})
		}
	}
	slices.SortFunc(list, func(a, b serverFile) int { return cmp.Compare(a.zxid, b.zxid) })
	return list, err
}

// findDataDir returns the directory that contains a server's snapshots: name itself or its
// subdirectory version-2. found is false if name is not a server's data directory.
func findDataDir(name string) (dir string, found bool) {
	for _, dir := range []string{name, filepath.Join(name, versionDir)} {
		if list, err := serverFiles(dir, "snapshot"); err == nil && len(list) > 0 {
			return dir, true
		}
	}
	return "", false
}

// readDataDir returns the tree that a server would load from the directory dir.
func readDataDir(ctx context.Context, dir string, options []Option) (*Tree, error) {
	snapshots, err := serverFiles(dir, "snapshot")
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

// withLogs applies the logs that follow the snapshot s to the tree t, which was read from s. It
// closes t, unless there are no logs and it returns t itself.
func withLogs(ctx context.Context, t *Tree, dir string, s serverFile, options []Option) (_ *Tree, err error) {
	logs, err := serverFiles(dir, "log")
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	first := 0
	for i, l := range logs {
		if l.zxid <= s.zxid { // a log that starts before the snapshot may also contain transactions after it
			first = i
		}
	}
	if logs = logs[first:]; len(logs) == 0 {
		return t, nil
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	file := newSourceFile(ctx, nil, options)
	for _, f := range append(slices.Clone(logs), s) {
		info, err := os.Stat(f.name)
		if err != nil {
			return nil, err
		}
		file.bytes += info.Size()
	}
	r := newReplay(t, newBuilder(file), s.zxid)
	for _, l := range logs {
		if err := r.log(ctx, l.name); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", l.name, err), r.b.t.Close())
		}
	}
	made, err := r.finish(ctx)
	if err != nil {
		return nil, errors.Join(err, r.b.t.Close())
	}
	return made, nil
}

// log applies the transactions of one log. The log may end in the middle of a record, because a
// running server may still be writing to it.
func (r *replay) log(ctx context.Context, name string) error {
	l, err := openLog(ctx, name)
	if err != nil {
		return err
	}
	r.atLogStart = true
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
