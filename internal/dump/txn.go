package dump

import (
	"bytes"
	"context"
	"encoding/binary"
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
	Parent  int32    // the cversion that the parent of what was created has in snapshots from then on
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
	f, err := userfile.OpenToRead(name)
	if err != nil {
		return nil, err
	}
	r, err := unpacked(ctx, f, nil)
	if err == nil {
		var start []byte
		if start, err = r.Peek(4); err == nil && !isMark(start, "ZKLG") || errors.Is(err, io.EOF) {
			err = errors.New("the file is not a transaction log")
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
	return fmt.Sprintf("the log ends in the middle of the record after zxid %#x, as it does when the server is killed", e.After)
}

// Txns are the transactions, in their order. An error comes last.
func (l *Log) Txns() iter.Seq2[*Txn, error] {
	return func(yield func(*Txn, error) bool) {
		last := int64(0)
		for {
			record, err := l.j.record()
			switch {
			case errors.Is(err, errTorn):
				yield(nil, &TornError{last})
				return
			case err != nil:
				yield(nil, fmt.Errorf("after zxid %#x: %w", last, err))
				return
			case record == nil:
				return
			}
			for t, err := range txnsOf(record) {
				if err != nil {
					yield(nil, fmt.Errorf("after zxid %#x: %w", last, err))
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

// recordHead is the checksum and the length before a record.
const recordHead = 8 + 4

// record returns the next record, verified; nil at the end.
func (j *juteReader) record() ([]byte, error) {
	var raw bytes.Buffer
	if _, err := io.CopyN(&raw, j.r, recordHead); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(bytes.Trim(raw.Bytes(), "\x00")) == 0 { // the end, perhaps padded
		return nil, j.padding()
	}
	size := int64(-1)
	if raw.Len() == recordHead {
		size = int64(int32(binary.BigEndian.Uint32(raw.Bytes()[8:])))
	}
	if size > 0 && size <= maxRecord {
		if _, err := io.CopyN(&raw, j.r, size+1); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if b, ok := recordAt(raw.Bytes()); ok {
			return b, nil
		}
	}
	rest, err := io.ReadAll(io.LimitReader(j.r, maxScan))
	if err != nil {
		return nil, err
	}
	possible := size > 0 && size <= maxRecord
	short := raw.Len() < recordHead || possible && int64(raw.Len()) < recordHead+size+1
	raw.Write(rest)
	b := raw.Bytes()
	switch {
	case recordBehind(b):
		return nil, errors.New("the next record is damaged; the log contains intact records after it, but zksh does not print them")
	case short, possible && len(bytes.Trim(b[recordHead+size:], "\x00")) == 0:
		return nil, errTorn
	}
	return nil, errors.New("the next record is damaged, and the log contains no intact record after it")
}

// errTorn is a record whose end was never written: the file ends in it, or its padding
// begins there.
var errTorn = errors.New("the last record of the log is incomplete")

// Bounds of the search for intact records behind a damaged one: bytes read, and bytes
// whose checksum is computed.
const (
	maxScan   = 32 << 20
	maxSummed = 256 << 20
)

// recordBehind reports whether an intact record begins behind the first byte of b.
func recordBehind(b []byte) bool {
	summed := 0
	for i := 1; i+recordHead < len(b) && summed < maxSummed; i++ {
		if binary.BigEndian.Uint32(b[i:]) != 0 { // the checksum has four bytes, in eight
			continue
		}
		size := int(int32(binary.BigEndian.Uint32(b[i+8:])))
		if size <= 0 || size > maxRecord || size >= len(b)-i-recordHead || b[i+recordHead+size] != 'B' {
			continue
		}
		summed += size
		if _, ok := recordAt(b[i:]); ok {
			return true
		}
	}
	return false
}

// recordAt returns the record at the beginning of b, if all of it is there and intact.
func recordAt(b []byte) ([]byte, bool) {
	sum, size := binary.BigEndian.Uint64(b), int(int32(binary.BigEndian.Uint32(b[8:])))
	if len(b) < recordHead+size+1 || b[recordHead+size] != 'B' {
		return nil, false
	}
	record := b[recordHead : recordHead+size]
	return record, uint64(adler32.Checksum(record)) == sum
}

// padding reads zeros up to the end.
func (j *juteReader) padding() error {
	b := make([]byte, 64<<10)
	for {
		n, err := j.r.Read(b)
		switch {
		case len(bytes.Trim(b[:n], "\x00")) > 0:
			return errors.New("the next record consists of zero bytes, but the log contains data after it")
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
		for i := range d.Count(8, 8) {
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
			t.Kind, t.Parent = Container, d.Int()
		case jute.OpCreateTTL:
			t.Parent = d.Int()
			t.Kind, t.TTL = TTL, time.Duration(d.Long())*time.Millisecond
		default:
			if d.Bool() {
				t.Kind = Ephemeral
			}
			if len(d.Rest()) >= 4 { // not in logs of servers before 3.3
				t.Parent = d.Int()
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
