package zkconn

import (
	"context"
	"io"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

// Pipe sends many requests without waiting for each answer. It is bound to one
// TCP connection: the server carries its requests out in the order in which they
// were made, and when the connection breaks, all that follows fails. No method
// blocks, so whoever makes very many waits for some answers in between; and none
// is sent once the context the Pipe was made with has ended.
type Pipe struct {
	ctx  context.Context
	k    *frameConn
	root chroot
}

// Pipe binds to the present connection.
func (c Client) Pipe(ctx context.Context, path string) (*Pipe, error) {
	k, root, err := c.connection(ctx, path)
	if err != nil {
		return nil, err
	}
	return &Pipe{ctx, k, root}, nil
}

// add sends a request behind those made before.
func add[T any](p *Pipe, o op[T]) *Pending[T] {
	a := bind(p.ctx, p.k.l, p.root, o)
	if o.err == nil {
		p.k.send(a.call)
	}
	return a
}

// Get asks for a znode's data and Stat.
func (p *Pipe) Get(path string) *Pending[Node] { return add(p, getData(path, nil)) }

// Exists asks for a znode's Stat, which needs no permission.
func (p *Pipe) Exists(path string) *Pending[*zk.Stat] { return add(p, exists(path, nil)) }

// Children asks for the names of a znode's children. With watch, a child watch is left.
func (p *Pipe) Children(path string, watch bool) *Pending[[]string] {
	return add(p, getChildren(path, shown(watch)))
}

// MultiChildren asks for the children of many znodes in one request, which
// servers from 3.6 on understand. The answer has one Listing for each path.
func (p *Pipe) MultiChildren(paths []string) *Pending[[]Listing] { return add(p, multiChildren(paths)) }

// Create asks to make one persistent znode.
func (p *Pipe) Create(path string, data []byte, acl []zk.ACL) *Pending[Written] {
	return add(p, create(path, data, acl, CreateMode{}))
}

// Delete asks to remove one znode, whatever its version.
func (p *Pipe) Delete(path string) *Pending[Written] { return add(p, alone(removal(path, -1))) }

// MultiDelete asks to remove all of these znodes or none. A refusal is that of
// the first that could not be removed.
func (p *Pipe) MultiDelete(paths []string) *Pending[Written] {
	return add(p, multi(paths, func(path string) change { return removal(path, -1) }))
}

// SetACL asks to write one znode's access control list.
func (p *Pipe) SetACL(path string, acl []zk.ACL, version int32) *Pending[*zk.Stat] {
	return add(p, setACL(path, acl, version))
}

// FourLetter sends a four-letter word (ruok, srvr, …) to a server, outside any
// session, and returns its answer, which is cut at 1 MiB.
func FourLetter(ctx context.Context, addr, word string) (string, error) {
	const patience = 2 * time.Second
	d := net.Dialer{Timeout: patience}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(c, 1<<20))
	return string(b), err
}

var versionPattern = regexp.MustCompile(`(?i)version: (\d+)\.(\d+)`)

// HasMultiRead tells whether the server of this pipe knows multiRead, as servers
// from 3.6 on do. An older one would drop the connection over it, so a server
// whose version cannot be learnt counts as old.
func (p *Pipe) HasMultiRead(ctx context.Context) bool {
	answer, err := FourLetter(ctx, p.k.addr, "srvr")
	if err != nil {
		return false
	}
	m := versionPattern.FindStringSubmatch(answer)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 3 || major == 3 && minor >= 6
}
