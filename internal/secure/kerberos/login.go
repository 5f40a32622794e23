// Package kerberos authenticates a client to a ZooKeeper server with the SASL mechanism GSSAPI, that
// is, with Kerberos 5. The client's tickets come from a ticket cache, or from a KDC with the help of
// a keytab.
//
// The package uses the messages and ciphers of the library gokrb5, but neither its network code,
// which has no limits, nor its sessions, which run in the background. All requests to KDCs go
// through ask. A panic of the library becomes an error.
//
// Start reading at Login.Authenticate.
package kerberos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zksh/zksh/internal/peer"
)

// Options determine where tickets come from, and for which service they are.
type Options struct {
	Principal string // with or without a realm; empty for the owner of the ticket cache
	UseCache  bool   // use the ticket cache, before the keytab
	Cache     string // ticket cache; if empty, that of KRB5CCNAME
	UseKeytab bool
	Keytab    string // file name; if empty, that of default_keytab_name in krb5.conf
	Config    string // path of krb5.conf; if empty, that of KRB5_CONFIG, or /etc/krb5.conf

	ServerPrincipal string // of all servers; if empty, it is Service and the name of each host
	Service         string // "zookeeper" if empty
	AsTyped         bool   // use the host names of the connect string unchanged, without a reverse lookup
}

// A Login authenticates connections with Kerberos. It keeps service tickets in memory until they
// expire. Its methods are safe for concurrent use.
type Login struct {
	opt    Options
	getenv func(string) string

	warned atomic.Int64 // end of the ticket of the latest warning, in seconds since 1970

	turn chan struct{} // capacity 1; contains a value while a goroutine uses the fields below

	conf     *krb5Conf
	answered string             // address of the KDC that answered last
	held     map[string]*ticket // by service
	rejected map[string][]byte  // tickets that servers have rejected, by service
}

// New returns a Login with the given options. It reads no files.
func New(opt Options, getenv func(string) string) *Login {
	return &Login{opt: opt, getenv: getenv, turn: make(chan struct{}, 1), held: map[string]*ticket{},
		rejected: map[string][]byte{}}
}

// Errors that say what a failed login means for the caller.
var (
	// ErrRefused is wrapped by the errors of send if the server rejected a token.
	ErrRefused = errors.New("refused")
	// ErrRetry is wrapped by errors after which another attempt can succeed: no KDC could be
	// reached, or the server rejected a ticket that was not new.
	ErrRetry = errors.New("try again")
)

// A ticket is a service ticket with its session key.
type ticket struct {
	messages.Ticket
	raw    []byte
	key    types.EncryptionKey
	cname  types.PrincipalName
	realm  string // of the client
	until  time.Time
	source string
	renews bool
	isNew  bool // whether the KDC has just issued it
}

// A Server is the server at the other end of a connection.
type Server struct {
	Host string // name in the connect string
	IP   string // address of the connection
}

// Authenticate authenticates a connection, and verifies the server's proof of its identity. send
// sends a token to the server, and returns the server's next token.
func (l *Login) Authenticate(ctx context.Context, s Server, send func([]byte) ([]byte, error)) (*Identity, error) {
	service := l.opt.servicePrincipal(ctx, s)
	t, err := l.ticket(ctx, service)
	if err != nil {
		if down, ok := errors.AsType[*unreachable](err); ok {
			return nil, fmt.Errorf("%w%w", quiet{ErrRetry}, down)
		}
		return nil, err
	}
	err = establish(t, send)
	switch {
	case errors.Is(err, ErrRefused):
		l.reject(service, t)
		if !t.isNew {
			return nil, fmt.Errorf("%wthe server rejected the Kerberos ticket for %s, which was not new: %w",
				quiet{ErrRetry}, peer.Printable(service), err)
		}
		return nil, fmt.Errorf("the server rejected the Kerberos ticket of %s for %s: "+
			"perhaps the server is another service (set zookeeper.server.principal), "+
			"its keytab is outdated, its clock is wrong, or it uses DIGEST-MD5 instead of Kerberos; "+
			"the server's log has the cause: %w", t.owner(), peer.Printable(service), err)
	case err != nil:
		return nil, err
	}
	return &Identity{t.owner(), service + "@" + t.Realm, t.until, t.source, t.renews, l}, nil
}

// quiet wraps an error without adding to the text.
type quiet struct{ error }

func (q quiet) Error() string { return "" }
func (q quiet) Unwrap() error { return q.error }

func (t *ticket) owner() string { return t.cname.PrincipalNameString() + "@" + t.realm }

// reject forgets a ticket that a server has rejected. The service may have new keys.
func (l *Login) reject(service string, t *ticket) {
	l.turn <- struct{}{} // others hold it for a bounded time
	defer func() { <-l.turn }()
	if l.held[service] == t {
		delete(l.held, service)
	}
	l.rejected[service] = t.raw
}

// ticket returns a ticket for a service: one from memory or from the ticket cache, or a new one.
func (l *Login) ticket(ctx context.Context, service string) (t *ticket, err error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, &unreachable{"the KDC did not answer in time"}
	}
	if t := l.held[service]; t != nil && time.Now().Before(t.until) {
		kept := *t
		kept.isNew = false
		l.held[service] = &kept
		return &kept, nil
	}
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, fmt.Errorf("a file is damaged, or the KDC sent a malformed answer: %v", r)
		}
		if err == nil {
			l.held[service] = t
		}
	}()
	if l.conf, err = readConf(cmp.Or(l.opt.Config, l.getenv("KRB5_CONFIG"), defaultConfig)); err != nil {
		return nil, err
	}
	var noCache error
	if l.opt.UseCache {
		if t, noCache = l.fromCache(ctx, service); noCache == nil || !l.opt.UseKeytab {
			return t, noCache
		}
		if _, down := errors.AsType[*unreachable](noCache); down {
			return nil, noCache
		}
	}
	if t, err = l.fromKeytab(ctx, service); err != nil && noCache != nil {
		return nil, fmt.Errorf("%w; and %w", noCache, err)
	}
	return t, err
}

func (l *Login) fromCache(ctx context.Context, service string) (*ticket, error) {
	cc, path, err := l.readCache()
	if err != nil {
		return nil, err
	}
	name := cc.owner.PrincipalNameString()
	if p := l.opt.Principal; p != "" && p != name && p != name+"@"+cc.realm {
		return nil, fmt.Errorf("the ticket cache %s belongs to %s, not to %s; run: kinit %s", path,
			peer.Printable(name+"@"+cc.realm), peer.Printable(p), peer.Printable(p))
	}
	source := "ticket cache " + path
	var tgt *cached
	for i := range cc.creds {
		c := &cc.creds[i]
		switch name := c.server.PrincipalNameString(); {
		case name == service && time.Now().Before(c.until) && !bytes.Equal(c.ticket, l.rejected[service]):
			t := &ticket{raw: c.ticket, key: c.key, cname: cc.owner, realm: cc.realm, until: c.until, source: source}
			if t.Unmarshal(c.ticket) != nil {
				return nil, fmt.Errorf("the ticket cache %s is damaged; get a new one with kinit", path)
			}
			return t, nil
		case name == "krbtgt/"+cc.realm && c.realm == cc.realm && (tgt == nil || c.until.After(tgt.until)):
			tgt = c
		}
	}
	g := &granting{cname: cc.owner, realm: cc.realm}
	switch {
	case tgt == nil:
		return nil, fmt.Errorf("the ticket cache %s has no ticket-granting ticket of the realm %s; get one with kinit",
			path, peer.Printable(cc.realm))
	case !time.Now().Before(tgt.until):
		return nil, fmt.Errorf("the Kerberos ticket in %s ended at %s; get a new one with kinit", path,
			tgt.until.Format(time.DateTime))
	case g.tgt.Unmarshal(tgt.ticket) != nil:
		return nil, fmt.Errorf("the ticket cache %s is damaged; get a new one with kinit", path)
	}
	g.key = tgt.key
	t, err := l.serviceTicket(ctx, g, service)
	if err == nil {
		t.source = source
	}
	return t, err
}

// split returns the name and the realm of the principal in the options.
func (l *Login) split() (name, realm string, err error) {
	name, realm, _ = strings.Cut(l.opt.Principal, "@")
	if realm = cmp.Or(realm, l.conf.realm); realm == "" {
		return "", "", fmt.Errorf("the principal %q has no realm, and %s sets no default_realm",
			l.opt.Principal, l.conf.path)
	}
	if name == "" {
		return "", "", errors.New(`a keytab needs a principal; set principal="NAME@REALM" in the JAAS file`)
	}
	return name, realm, nil
}
