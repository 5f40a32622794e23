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

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/userfile"
)

// A Txn is one change in a transaction log: a transaction, or one operation of a multi.
type Txn struct {
	Session int64
	Cxid    int32
	Zxid    int64
	Time    time.Time
	Type    int32 // operation code from package jute, or one of the constants below
	Path    string
	Data    []byte // new data, for create and setData; nil for null data
	Kind    Kind   // kind of the created znode
	TTL     time.Duration
	Version int32    // new version, for setData and setACL
	Gone    []string // paths of the ephemeral znodes deleted with their session; since 3.6
	Err     int32    // error code, for TxnError
	Part    int      // position in a multi, counted from 1, or 0 outside of a multi
}

// Types of transactions that are not operations of clients.
const (
	TxnCreateSession = -10
	TxnCloseSession  = -11
	TxnError         = -1
)

// A Log is an open transaction log.
type Log struct {
	f *os.File
	j *juteReader
}

// OpenLog opens a transaction log of a ZooKeeper server.
func OpenLog(ctx context.Context, name string) (*Log, error) {
	return userfile.Await(ctx, func() (*Log, error) { return openLog(ctx, name) })
}

func openLog(ctx context.Context, name string) (*Log, error) {
	f, err := openSingle(name, "a transaction log (log.*)")
	if err != nil {
		return nil, err
	}
	r, err := decompressed(&sourceFile{ctx: ctx, r: f})
	if err == nil {
		var start []byte
		if start, err = r.Peek(4); err == nil && !hasMagic(start, "ZKLG") || errors.Is(err, io.EOF) {
			err = errors.New("the file is not a transaction log")
		}
	}
	l := &Log{f: f}
	if err == nil {
		l.j = newJuteReader(r)
		err = l.j.fileHeader()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, truncatedError(err)), f.Close())
	}
	return l, nil
}

// Close closes the file of the log.
func (l *Log) Close() error { return l.f.Close() }

// A TornError reports that a log ends in the middle of a record, as it does after the server was
// killed. All earlier records are intact.
type TornError struct {
	After int64 // zxid of the last intact record
}

func (e *TornError) Error() string {
	return fmt.Sprintf("the log ends in the middle of the record after zxid %#x, as it does when the server is killed", e.After)
}

// Txns yields the transactions in the order of the log. If there is an error, it comes last.
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

// maxRecord is the maximum size of a record in a log, in bytes. A multi may contain many znodes.
const maxRecord = maxData + 1<<20

// recordHeader is the total size of the checksum and the length in front of each record, in bytes.
const recordHeader = 8 + 4

// record reads the next record of a log and verifies its checksum. It returns nil at the end of the
// log.
func (j *juteReader) record() ([]byte, error) {
	var raw bytes.Buffer
	if _, err := io.CopyN(&raw, j.r, recordHeader); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(bytes.Trim(raw.Bytes(), "\x00")) == 0 { // the end of the log, which may be padded with zeros
		return nil, j.padding()
	}
	size := int64(-1)
	if raw.Len() == recordHeader {
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
	short := raw.Len() < recordHeader || possible && int64(raw.Len()) < recordHeader+size+1
	raw.Write(rest)
	b := raw.Bytes()
	switch {
	case recordFollows(b):
		return nil, errors.New("the log contains a damaged record; intact records follow it, but zksh does not print them")
	case short, possible && len(bytes.Trim(b[recordHeader+size:], "\x00")) == 0:
		return nil, errTorn
	}
	return nil, errors.New("the log contains a damaged record, and no intact record follows it")
}

// errTorn means that the last record of the log was not written completely: the log, or the part of
// the log before the padding, ends in the middle of that record.
var errTorn = errors.New("the last record of the log is incomplete")

// Limits on the search for intact records after a damaged record.
const (
	maxScan   = 32 << 20  // maximum number of bytes that are read
	maxSummed = 256 << 20 // maximum number of bytes whose checksum is computed
)

// recordFollows reports whether an intact record begins anywhere after the first byte of b.
func recordFollows(b []byte) bool {
	summed := 0
	for i := 1; i+recordHeader < len(b) && summed < maxSummed; i++ {
		if binary.BigEndian.Uint32(b[i:]) != 0 { // a checksum is stored as eight bytes, the first four of which are zero
			continue
		}
		size := int(int32(binary.BigEndian.Uint32(b[i+8:])))
		if size <= 0 || size > maxRecord || size >= len(b)-i-recordHeader || b[i+recordHeader+size] != 'B' {
			continue
		}
		summed += size
		if _, ok := recordAt(b[i:]); ok {
			return true
		}
	}
	return false
}

// recordAt returns the record at the beginning of b. It returns false if the record is incomplete
// or damaged.
func recordAt(b []byte) ([]byte, bool) {
	sum, size := binary.BigEndian.Uint64(b), int(int32(binary.BigEndian.Uint32(b[8:])))
	if len(b) < recordHeader+size+1 || b[recordHeader+size] != 'B' {
		return nil, false
	}
	record := b[recordHeader : recordHeader+size]
	return record, uint64(adler32.Checksum(record)) == sum
}

// padding reads the zeros with which a log is filled up to its end.
func (j *juteReader) padding() error {
	b := make([]byte, 64<<10)
	for {
		n, err := j.r.Read(b)
		switch {
		case len(bytes.Trim(b[:n], "\x00")) > 0:
			return errors.New("the log is damaged: it contains data after the zero bytes that fill the end of a log")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// txnsOf decodes a record of a log, which is one transaction or a multi with several operations. If
// there is an error, it comes last.
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

// body decodes the operation of a transaction. It ignores the digest of the tree that newer servers
// write after the operation.
func (t *Txn) body(d *jute.Decoder) error {
	switch t.Type {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		t.Path, t.Data = d.String(), d.Buffer()
		d.ACL() // skip the ACL, because log does not print it
		switch t.Type {
		case jute.OpCreateContainer:
			t.Kind = Container
		case jute.OpCreateTTL:
			d.Int() // skip the new cversion of the parent
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
		t.Path = d.String()
		d.ACL() // skip the ACL, because log does not print it
		t.Version = d.Int()
	case jute.OpCheck:
		t.Path, t.Version = d.String(), d.Int()
	case TxnCreateSession:
		d.Int() // skip the session timeout
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
