package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/userfile"
)

// A ccache is the contents of a ticket cache of the type FILE, versions 3 and 4.
type ccache struct {
	owner types.PrincipalName
	realm string
	creds []cached
}

// A cached ticket is one entry of a ticket cache.
type cached struct {
	server types.PrincipalName
	realm  string // of the server
	key    types.EncryptionKey
	until  time.Time
	ticket []byte
}

var errDamaged = errors.New("damaged")

// parseCache parses a ticket cache. The library's parser panics on damaged files, and allocates
// as much memory as their length fields say.
func parseCache(data []byte) (*ccache, error) {
	r := &reader{b: data}
	switch version := r.uint(2); version {
	case 0x0504:
		r.bytes(r.uint(2))
	case 0x0503:
	default:
		return nil, errors.New("not a ticket cache, or of an old version")
	}
	c := &ccache{}
	c.owner, c.realm = r.principal()
	for len(r.b) > 0 && !r.short {
		var e cached
		r.principal()
		e.server, e.realm = r.principal()
		e.key.KeyType = int32(r.uint(2))
		e.key.KeyValue = r.bytes(r.uint(4))
		r.bytes(8) // times of the authentication and of the start
		e.until = time.Unix(int64(r.uint(4)), 0)
		r.bytes(4 + 1 + 4) // end of renewals, whether the key is of another session, and flags
		for range 2 {      // addresses and authorization data
			for n := r.uint(4); n > 0 && !r.short; n-- {
				r.bytes(2)
				r.bytes(r.uint(4))
			}
		}
		e.ticket = r.bytes(r.uint(4))
		r.bytes(r.uint(4))
		c.creds = append(c.creds, e)
	}
	if r.short {
		return nil, errDamaged
	}
	return c, nil
}

// A reader decodes big-endian numbers and strings. After the end of the data, it returns zeros.
type reader struct {
	b     []byte
	short bool // whether the data ended too early
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)) {
		r.b, r.short = nil, true
		return nil
	}
	var b []byte
	b, r.b = r.b[:n], r.b[n:]
	return b
}

func (r *reader) uint(size uint32) uint32 {
	var b [4]byte
	copy(b[4-size:], r.bytes(size))
	return binary.BigEndian.Uint32(b[:])
}

func (r *reader) principal() (name types.PrincipalName, realm string) {
	name.NameType = int32(r.uint(4))
	n := r.uint(4)
	realm = string(r.bytes(r.uint(4)))
	for ; n > 0 && !r.short; n-- {
		name.NameString = append(name.NameString, string(r.bytes(r.uint(4))))
	}
	return name, realm
}

// cachePath returns the path of the ticket cache: that of the options, or else that of
// KRB5CCNAME, or else MIT's default, as in Java.
func (l *Login) cachePath() (string, error) {
	name := l.opt.Cache
	if name == "" {
		name = l.getenv("KRB5CCNAME")
	}
	if name == "" {
		name = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	}
	kind, path, ok := strings.Cut(name, ":")
	switch {
	case !ok || len(kind) == 1: // a Windows drive
		return name, nil
	case kind == "FILE":
		return path, nil
	}
	return "", fmt.Errorf("zksh cannot read the ticket cache %s: it supports caches of the type FILE, not %s; "+
		"run: export KRB5CCNAME=FILE:$HOME/.krb5cc; then kinit; or use a keytab", peer.Printable(name),
		peer.Printable(kind))
}

// readCache reads the ticket cache.
func (l *Login) readCache() (*ccache, string, error) {
	path, err := l.cachePath()
	if err != nil {
		return nil, "", err
	}
	data, err := userfile.ReadPrivate(path, maxFile, "tickets")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, path, fmt.Errorf("the ticket cache %s does not exist; get a ticket with kinit", path)
	}
	if err != nil {
		return nil, path, fmt.Errorf("the ticket cache cannot be read: %w", err)
	}
	c, err := parseCache(data)
	if err != nil {
		return nil, path, fmt.Errorf("the ticket cache %s is %w; get a new one with kinit", path, err)
	}
	return c, path, nil
}
