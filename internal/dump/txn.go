package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"iter"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/userfile"
)

// Txn is a transaction in a log: a change, or a part of a multi.
type Txn struct {
	Session int64
	Cxid    int32
	Zxid    int64
	Time    time.Time
	Type    int32 // the operation, as jute has it, or one of those below
	Path    string
	Data    []byte // of create and setData; nil: null
	ACL     []zk.ACL
	Kind    Kind // of what was created
	TTL     time.Duration
	Version int32    // that the znode has from then on, of setData and setACL
	Gone    []string // the ephemeral znodes that went with a session, since 3.6
	Err     int32    // why nothing was done
	Part    int      // which of a multi, from 1; 0: none
}

// What stands in logs besides the operations of clients.
const (
	TxnCreateSession = -10
	TxnCloseSession  = -11
	TxnError         = -1
)

// Log is a transaction log that is being read.
type Log struct {
	f *os.File
	j *juteReader
}

// OpenLog begins to read a log of ZooKeeper's.
func OpenLog(ctx context.Context, name string) (*Log, error) {
	return userfile.UnlessLeft(ctx, func() (*Log, error) { return openLog(ctx, name) })
}

func openLog(ctx context.Context, name string) (*Log, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	r, err := unpacked(ctx, f)
	if err == nil {
		var start []byte
		if start, err = r.Peek(4); err == nil && !isMark(start, "ZKLG") || errors.Is(err, io.EOF) {
			err = errors.New("it is no log of transactions")
		}
	}
	l := &Log{f: f}
	if err == nil {
		l.j = newJuteReader(r.Reader)
		err = l.j.mark()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, cutShort(err)), f.Close())
	}
	return l, nil
}

// Close ends the reading.
func (l *Log) Close() error { return l.f.Close() }

// TornError says that a log ends in the middle of a record, as it does when its server was
// killed: what came before is whole.
type TornError struct{ After int64 }

func (e *TornError) Error() string {
	return fmt.Sprintf("the log ends in the middle of a record behind zxid %#x: its server may have been killed", e.After)
}

// Txns are the transactions, in their order. An error comes last.
func (l *Log) Txns() iter.Seq2[*Txn, error] {
	return func(yield func(*Txn, error) bool) {
		last := int64(0)
		for {
			record, err := l.j.record()
			switch {
			case errors.Is(err, io.ErrUnexpectedEOF):
				yield(nil, &TornError{last})
				return
			case err != nil:
				yield(nil, fmt.Errorf("behind zxid %#x: %w", last, err))
				return
			case record == nil:
				return
			}
			for t, err := range txnsOf(record) {
				if err != nil {
					yield(nil, fmt.Errorf("behind zxid %#x: %w", last, err))
					return
				}
				if last = t.Zxid; !yield(t, nil) {
					return
				}
			}
		}
	}
}

// maxRecord bounds a record, of which a multi may have many znodes.
const maxRecord = maxData + 1<<20

// record is the next one, verified; nil at the end.
func (j *juteReader) record() ([]byte, error) {
	if _, err := j.r.Peek(1); errors.Is(err, io.EOF) {
		return nil, nil
	}
	sum := j.long()
	b := j.buffer(maxRecord)
	if len(b) == 0 && sum == 0 && (j.err == nil || errors.Is(j.err, io.ErrUnexpectedEOF)) {
		return nil, j.padding()
	}
	end := j.take(1)
	if j.err == nil && (len(b) == 0 || end[0] != 'B' || int64(adler32.Checksum(b)) != sum) {
		j.err = errSum
	}
	return b, j.err
}

// padding reads zeros up to the end.
func (j *juteReader) padding() error {
	b := make([]byte, 64<<10)
	for {
		n, err := j.r.Read(b)
		switch {
		case len(bytes.Trim(b[:n], "\x00")) > 0:
			return errSum
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// txnsOf reads a record: one transaction, or the parts of one. An error comes last.
func txnsOf(record []byte) iter.Seq2[*Txn, error] {
	return func(yield func(*Txn, error) bool) {
		d := jute.NewDecoder(record)
		t := Txn{Session: d.Long(), Cxid: d.Int(), Zxid: d.Long(), Time: time.UnixMilli(d.Long()), Type: d.Int()}
		if t.Type != jute.OpMulti || d.Err() != nil {
			if err := t.body(d); err != nil {
				yield(nil, err)
				return
			}
			yield(&t, nil)
			return
		}
		for i := range d.Count(8) {
			part := t
			part.Type, part.Part = d.Int(), i+1
			if err := part.body(jute.NewDecoder(d.Buffer())); err != nil {
				yield(nil, err)
				return
			}
			if !yield(&part, nil) {
				return
			}
		}
		if d.Err() != nil {
			yield(nil, d.Err())
		}
	}
}

// body reads what was done. Behind it newer servers have a digest of the tree.
func (t *Txn) body(d *jute.Decoder) error {
	switch t.Type {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		t.Path, t.Data, t.ACL = d.String(), d.Buffer(), d.ACL()
		switch t.Type {
		case jute.OpCreateContainer:
			t.Kind = Container
		case jute.OpCreateTTL:
			d.Int() // what the parent's cversion has become
			t.Kind, t.TTL = TTL, time.Duration(d.Long())*time.Millisecond
		default:
			if d.Bool() {
				t.Kind = Ephemeral
			}
		}
	case jute.OpDelete, jute.OpDeleteContainer:
		t.Path = d.String()
	case jute.OpSetData, jute.OpReconfig:
		t.Path, t.Data, t.Version = d.String(), d.Buffer(), d.Int()
	case jute.OpSetACL:
		t.Path, t.ACL, t.Version = d.String(), d.ACL(), d.Int()
	case jute.OpCheck:
		t.Path, t.Version = d.String(), d.Int()
	case TxnCreateSession:
		d.Int() // its timeout
	case TxnCloseSession:
		names := jute.NewDecoder(d.Rest())
		if gone := names.Strings(); names.Err() == nil {
			t.Gone = gone
		}
	case TxnError:
		t.Err = d.Int()
	}
	return d.Err()
}
