package dump

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
)

// zksh's own format consists of lines in JSON: a header, one line for each znode, a trailer, and a
// line with the checksum of all lines before it.

// header is the first line of a file in zksh's own format.
type header struct {
	Mark    string              `json:"zksh"` // always "dump"
	Version int                 `json:"version"`
	Root    string              `json:"root"`
	Server  string              `json:"server,omitempty"`
	Zxid    int64               `json:"zxid,omitempty"`
	Time    time.Time           `json:"time"`
	LeftOut limitedList[string] `json:"left_out,omitempty"`
}

// A limitedList is a list with at most maxList bytes of JSON. The limit on the length of a line is
// much higher, because a line may contain a znode's data.
type limitedList[T any] []T

// maxList is the maximum length of a limitedList in JSON, in bytes.
const maxList = 1 << 20

// UnmarshalJSON implements json.Unmarshaler.
func (l *limitedList[T]) UnmarshalJSON(b []byte) error {
	if len(b) > maxList {
		return fmt.Errorf("a list in the line has %d bytes, which exceeds the limit of %d bytes", len(b), maxList)
	}
	return json.Unmarshal(b, (*[]T)(l))
}

const (
	linesStart   = `{"zksh":` // start of the first line
	linesMark    = "dump"
	linesVersion = 1
)

// A record is the line of one znode or, if End is set, the trailer.
type record struct {
	Path *string               `json:"path"`
	Kind Kind                  `json:"kind"`
	TTL  int64                 `json:"ttl_ms"`
	Data []byte                `json:"data"`
	ACL  limitedList[aclEntry] `json:"acl"`
	Stat *statJSON             `json:"stat"`

	End *trailer `json:"end"`
}

type trailer struct {
	Znodes int                 `json:"znodes"`
	Zxid   int64               `json:"zxid,omitempty"`
	Fuzzy  int                 `json:"fuzzy,omitempty"` // number of znodes that changed after the export started
	Unread limitedList[string] `json:"unread,omitempty"`
	Missed int                 `json:"missed,omitempty"`
}

// sumLine returns the last line of a file, which contains the checksum of the file.
func sumLine(sum hash.Hash) string { return fmt.Sprintf("{\"sha256\":\"%x\"}\n", sum.Sum(nil)) }

type aclEntry struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  int32  `json:"perms"`
}

type statJSON struct {
	Czxid          int64 `json:"czxid"`
	Mzxid          int64 `json:"mzxid"`
	Ctime          int64 `json:"ctime"`
	Mtime          int64 `json:"mtime"`
	Version        int32 `json:"version"`
	Cversion       int32 `json:"cversion"`
	Aversion       int32 `json:"aversion"`
	EphemeralOwner int64 `json:"ephemeralOwner"`
	DataLength     int32 `json:"dataLength"`
	NumChildren    int32 `json:"numChildren"`
	Pzxid          int64 `json:"pzxid"`
}

// A lineWriter encodes a tree in zksh's own format.
type lineWriter struct {
	w     io.Writer
	sum   hash.Hash
	buf   []byte
	start int64 // server's zxid at the start of the export
	count int   // number of znodes written
	fuzzy int   // number of znodes that changed after the export started

	acl     []zk.ACL // ACL of the previous znode; most znodes have the same ACL as the previous one
	aclText []byte   // JSON of acl
}

func newLineWriter(w io.Writer) *lineWriter { return &lineWriter{w: w, sum: sha256.New()} }

func (l *lineWriter) line(b []byte) error {
	l.sum.Write(b)
	_, err := l.w.Write(b)
	return err
}

func (l *lineWriter) begin(h Header) error {
	l.start = h.Zxid
	b, err := json.Marshal(header{linesMark, linesVersion, h.Root, h.Server, h.Zxid, h.Time.UTC(), h.LeftOut})
	if err != nil {
		return err
	}
	return l.line(append(b, '\n'))
}

func (l *lineWriter) znode(z *Znode) error {
	l.count++
	if st := z.Stat; st != nil && l.start > 0 && max(st.Czxid, st.Mzxid, st.Pzxid) > l.start {
		l.fuzzy++
	}
	l.buf = l.append(l.buf[:0], z)
	return l.line(l.buf)
}

// append appends the line of a znode to b, in exactly the form that recordReader parses. The JSON
// package would produce the same bytes, but export -R of 100,000 znodes would take 1.2 to 1.5 times
// as long.
func (l *lineWriter) append(b []byte, z *Znode) []byte {
	b = appendString(append(b, `{"path":`...), z.Path)
	b = appendString(append(b, `,"kind":`...), z.Kind.String())
	if z.Kind == TTL {
		b = strconv.AppendInt(append(b, `,"ttl_ms":`...), z.TTL.Milliseconds(), 10)
	}
	b = appendBase64(append(b, `,"data":`...), z.Data)
	if l.aclText == nil || !slices.Equal(z.ACL, l.acl) || (z.ACL == nil) != (l.acl == nil) {
		l.acl, l.aclText = z.ACL, appendACL(l.aclText[:0], z.ACL)
	}
	b = append(append(b, `,"acl":`...), l.aclText...)
	b = appendStat(append(b, `,"stat":`...), z.Stat)
	return append(b, "}\n"...)
}

func (l *lineWriter) end(t Trailer) error {
	b, err := json.Marshal(map[string]trailer{
		"end": {l.count, t.Zxid, l.fuzzy, t.Unread, t.Missed},
	})
	if err == nil {
		err = l.line(append(b, '\n'))
	}
	if err == nil {
		_, err = io.WriteString(l.w, sumLine(l.sum))
	}
	return err
}

func appendBase64(b, data []byte) []byte {
	if data == nil {
		return append(b, "null"...)
	}
	b = base64.StdEncoding.AppendEncode(append(b, '"'), data)
	return append(b, '"')
}

func appendACL(b []byte, acl []zk.ACL) []byte {
	if acl == nil {
		return append(b, "null"...)
	}
	return appendList(b, acl, func(b []byte, a zk.ACL) []byte {
		b = appendString(append(b, `{"scheme":`...), a.Scheme)
		b = appendString(append(b, `,"id":`...), a.ID)
		return append(strconv.AppendInt(append(b, `,"perms":`...), int64(a.Perms), 10), '}')
	})
}

// appendList appends a JSON array. It calls appendItem for each item.
func appendList[T any](b []byte, items []T, appendItem func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, x := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, x)
	}
	return append(b, ']')
}

// appendStat appends the JSON of a Stat, without fields that are 0. It formats a value only once if
// several fields have it. This is common: most znodes were never changed after their creation, so
// several of their zxids and times are equal.
func appendStat(b []byte, st *zk.Stat) []byte {
	if st == nil {
		return append(b, "null"...)
	}
	var room [2][20]byte
	zxid, time := strconv.AppendInt(room[0][:0], st.Czxid, 10), strconv.AppendInt(room[1][:0], st.Ctime, 10)
	open := byte('{')
	for i, value := range [...]int64{ // in the order of statFields
		st.Czxid, st.Mzxid, st.Ctime, st.Mtime, int64(st.Version), int64(st.Cversion), int64(st.Aversion),
		st.EphemeralOwner, int64(st.DataLength), int64(st.NumChildren), st.Pzxid,
	} {
		if value == 0 {
			continue
		}
		b = append(append(b, open), statFields[i].mark...)
		open = ','
		switch value {
		case st.Czxid:
			b = append(b, zxid...)
		case st.Ctime:
			b = append(b, time...)
		default:
			b = strconv.AppendInt(b, value, 10)
		}
	}
	if open == '{' {
		b = append(b, open)
	}
	return append(b, '}')
}

// appendString appends a JSON string.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	plain := 0 // start of the bytes that have not been appended yet, because they need no escape
	for i := 0; i < len(s); {
		c, size := s[i], 1
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(append(b, s[plain:i]...), r)
		case c == '"' || c == '\\':
			b = append(append(b, s[plain:i]...), '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(append(b, s[plain:i]...), '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			i++
			continue
		}
		i += size
		plain = i
	}
	return append(append(b, s[plain:]...), '"')
}

// readLines reads zksh's own format, and calls add for each znode.
func (f *File) readLines(add func(*Znode) error) error {
	r := &lineReader{r: f.r, sum: sha256.New()}
	for more := true; more; {
		f.Part++
		before := r.count
		if err := f.readPart(r, add); err != nil {
			if f.Part > 1 {
				err = fmt.Errorf("%w; the dumps before the damaged one are intact: to extract them, run head -n %d on the file", err, before)
			}
			return err
		}
		var err error
		if more, err = r.more(); err != nil {
			return err
		}
	}
	return nil
}

// readPart reads one of the dumps in the file.
func (f *File) readPart(r *lineReader, add func(*Znode) error) error {
	line, err := r.next()
	if err != nil {
		return err
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil || h.Mark != linesMark {
		return fmt.Errorf("line %d is not a header, with which every export must begin", r.count)
	}
	if h.Version != linesVersion {
		return fmt.Errorf("the file is in format version %d, but this version of zksh can read only version %d", h.Version, linesVersion)
	}
	if f.Part == 1 {
		f.Header = Header{Root: h.Root, Server: h.Server, Zxid: h.Zxid, Time: h.Time, LeftOut: h.LeftOut}
	}
	var records recordReader
	for count := 0; ; count++ {
		line, err := r.next()
		if err != nil {
			return err
		}
		z, ok := records.znode(line)
		if !ok {
			rec, err := readRecord(line)
			if err != nil {
				return fmt.Errorf("line %d: %w", r.count, err)
			}
			if rec.End != nil {
				if rec.End.Znodes != count {
					return errChanged
				}
				f.addTrailer(rec.End)
				return r.end()
			}
			z = rec.znode()
		}
		err = checkZnode(z)
		if err == nil {
			err = add(z)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", r.count, err)
		}
	}
}

// addTrailer adds the trailer of the current dump to the trailer of the file.
func (f *File) addTrailer(end *trailer) {
	f.Trailer.Zxid, f.Trailer.Missed = end.Zxid, f.Trailer.Missed+max(end.Missed, len(end.Unread))
	if f.Part == 1 {
		f.Trailer.Unread = end.Unread
	}
}

// readRecord parses one line. It rejects unknown fields, because their contents would be lost.
func readRecord(line []byte) (*record, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var rec record
	if err := d.Decode(&rec); err != nil {
		return nil, fmt.Errorf("the line contains neither a znode nor the checksum of an export: %w", err)
	}
	if (rec.Path == nil) == (rec.End == nil) || d.More() {
		return nil, errors.New("the line contains neither a znode nor the checksum of an export")
	}
	if rec.TTL < 0 || rec.TTL > maxTTL || (rec.TTL > 0) != (rec.Kind == TTL) {
		return nil, fmt.Errorf("a znode of kind %q cannot have a time to live of %d ms", rec.Kind, rec.TTL)
	}
	return &rec, nil
}

func (rec *record) znode() *Znode {
	return &Znode{Path: *rec.Path, Kind: rec.Kind, TTL: time.Duration(rec.TTL) * time.Millisecond, Data: rec.Data,
		ACL: accessList(rec.ACL), Stat: (*zk.Stat)(rec.Stat)}
}

func accessList(entries []aclEntry) []zk.ACL {
	if entries == nil {
		return nil
	}
	acl := make([]zk.ACL, len(entries))
	for i, e := range entries {
		acl[i] = zk.ACL{Perms: e.Perms, Scheme: e.Scheme, ID: e.ID}
	}
	return acl
}
