package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-zookeeper/zk"
)

// A zoocreeperWriter writes the format of zoocreeper: a single JSON object whose field names are
// the paths of the znodes. The format of zk_shell, which zksh can only read, is similar, but its
// entries contain neither a Stat nor a kind.
type zoocreeperWriter struct {
	w     io.Writer
	buf   []byte
	count int
}

func (n *zoocreeperWriter) begin(Header) error {
	_, err := io.WriteString(n.w, "{")
	return err
}

func (n *zoocreeperWriter) znode(z *Znode) error {
	b := n.buf[:0]
	if n.count++; n.count > 1 {
		b = append(b, ',')
	}
	n.buf = appendZoocreeper(append(appendString(append(b, '\n'), z.Path), ':'), z)
	_, err := n.w.Write(n.buf)
	return err
}

func (n *zoocreeperWriter) end(Trailer) error {
	_, err := io.WriteString(n.w, "\n}\n")
	return err
}

// appendZoocreeper appends the JSON entry of a znode. The fields ephemeralOwner, data and acls are
// always present, because zoocreeper requires them.
func appendZoocreeper(b []byte, z *Znode) []byte {
	st := z.Stat
	if st == nil {
		st = &zk.Stat{}
	}
	for i, f := range []struct {
		name  string
		value int64
	}{
		{"aversion", int64(st.Aversion)}, {"ctime", st.Ctime}, {"cversion", int64(st.Cversion)}, {"czxid", st.Czxid},
		{"ephemeralOwner", st.EphemeralOwner}, {"mtime", st.Mtime}, {"mzxid", st.Mzxid}, {"pzxid", st.Pzxid}, {"version", int64(st.Version)},
	} {
		b = appendNumber(b, i == 0, f.name, f.value)
	}
	b = appendBase64(append(b, `,"data":`...), z.Data)
	b = appendList(append(b, `,"acls":`...), z.ACL, func(b []byte, a zk.ACL) []byte {
		b = appendString(append(b, `{"id":`...), a.ID)
		b = appendString(append(b, `,"scheme":`...), a.Scheme)
		return append(strconv.AppendInt(append(b, `,"perms":`...), int64(a.Perms), 10), '}')
	})
	return append(b, '}')
}

// A namedEntry is the entry of a znode in the format of zoocreeper or zk_shell.
type namedEntry struct {
	Data    []byte                `json:"data"`
	Content *[]byte               `json:"content"`
	ACLs    limitedList[namedACL] `json:"acls"`
	*statJSON
}

// A namedACL is an ACL entry in JSON. Its ID is a string, or an object that also contains the
// scheme.
type namedACL struct {
	Perms  int32           `json:"perms"`
	Scheme string          `json:"scheme"`
	ID     json.RawMessage `json:"id"`
}

func (a namedACL) acl() (zk.ACL, error) {
	acl := zk.ACL{Perms: a.Perms, Scheme: a.Scheme}
	if len(a.ID) == 0 || a.ID[0] != '{' {
		return acl, json.Unmarshal(a.ID, &acl.ID)
	}
	var id struct{ Scheme, ID string }
	err := json.Unmarshal(a.ID, &id)
	acl.Scheme, acl.ID = id.Scheme, id.ID
	return acl, err
}

// readByName reads a file in the format of zoocreeper or zk_shell. The first entry determines which
// of the two formats it is.
func readByName(in *input) (t *Tree, err error) {
	m := &entryReader{r: in, left: maxEntry}
	d := json.NewDecoder(m)
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	b := newBuilder("", in.file)
	defer func() {
		if err != nil {
			err = errors.Join(unexpectedEOF(err), b.t.Close())
		}
	}()
	for m.left = maxEntry; d.More(); m.left = maxEntry {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		path, _ := token.(string) // always a string, because the token is a field name
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		z, form, err := readNamed(path, raw)
		if err == nil && b.t.Form != "" && form != b.t.Form {
			err = errors.New("the znode's entry has a different format from the entries before it")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shorten(path), err)
		}
		b.t.Form = form
		if err := b.add(z); err != nil {
			return nil, err
		}
	}
	if err := expectEnd(d, m); err != nil {
		return nil, err
	}
	if t, err = b.finish(true); err == nil {
		t.Header.Root = t.Root()
	}
	return t, err
}

func readNamed(path string, raw []byte) (*Znode, Form, error) {
	var fields struct{ ACLs, Data, Content, EphemeralOwner json.RawMessage }
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, "", errors.New("the znode's entry must be a JSON object")
	}
	form := Zoocreep
	if fields.Content != nil {
		form = ZkShell
	}
	if fields.ACLs == nil || form == Zoocreep && (fields.Data == nil || fields.EphemeralOwner == nil) {
		return nil, "", errors.New("the znode's entry is in neither the zoocreeper nor the zk_shell format")
	}
	e := namedEntry{statJSON: &statJSON{}}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, "", err
	}
	z := &Znode{Path: path, Data: e.Data}
	if e.Content != nil {
		z.Data = *e.Content
	}
	for _, a := range e.ACLs { // if the list is empty, z.ACL remains nil, which means unknown
		acl, err := a.acl()
		if err != nil {
			return nil, "", fmt.Errorf("invalid ACL: %w", err)
		}
		z.ACL = append(z.ACL, acl)
	}
	if form == Zoocreep {
		z.Stat = (*zk.Stat)(e.statJSON)
		z.Kind, z.TTL = kindOf(z.Stat.EphemeralOwner)
	}
	return z, form, nil
}

// An entryReader limits the number of bytes that are read for one znode, because the JSON decoder
// holds them in memory. The caller must reset the field left before each znode.
type entryReader struct {
	r    io.Reader
	left int
}

// Read implements io.Reader.
func (m *entryReader) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, fmt.Errorf("the file contains a znode whose entry is larger than the limit of %d bytes", maxEntry)
	}
	n, err := m.r.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

// expectEnd reads the end of the outermost JSON value. It returns an error if more data follows.
func expectEnd(d *json.Decoder, m *entryReader) error {
	if _, err := d.Token(); err != nil {
		return err
	}
	m.left = maxEntry
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the file contains data after the end of the export")
	}
	return nil
}

// unexpectedEOF replaces io.EOF with io.ErrUnexpectedEOF, because the file is truncated if it ends
// here.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
