package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/playground"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// contents describes the file that a sandbox contains.
type contents struct {
	file     string
	header   dump.Header
	trailer  dump.Trailer
	znodes   int
	kinds    map[dump.Kind]int // number of znodes of each kind
	openACLs int               // number of znodes whose ACL is not in the file
	zxid     int64             // highest zxid in the file
	changed  int64             // time of the last change, in milliseconds since 1970
}

// noReaping is the interval at which a loaded sandbox deletes expired znodes with a time to live, and
// empty containers: never, because the user wants to see them.
const noReaping = math.MaxInt64

// loadSandbox runs a private sandbox with the contents of the file o.Load. The shell's own session is
// the superuser of the sandbox, which ACLs do not restrict. Nobody else can read the sandbox, unless
// it is served to other clients.
func (o *Options) loadSandbox(ctx context.Context) (*Sandbox, error) {
	limit := memoryLimit()
	debug.SetMemoryLimit(limit) // near the limit, the garbage collector then runs more often
	options := sandbox.Options{As: o.As, ReapEvery: noReaping, MaxTreeBytes: limit / 5 * 4}
	if o.Listen == "" {
		credential := []byte("super:" + rand.Text())
		o.superuser = &superuser{credential: zkconn.Credential{Scheme: "digest", Auth: credential}}
		options.SuperDigest, options.OnlySuperuser = zkconn.Digest(string(credential)), true
	}
	type loaded struct {
		server *sandbox.Server
		c      *contents
	}
	l, err := userfile.Await(ctx, func() (loaded, error) {
		server := sandbox.New(options)
		c, err := load(ctx, server, userfile.Home(o.Load), limit)
		return loaded{server, c}, err
	})
	if err != nil {
		return nil, err
	}
	place, err := playground.Private(l.server, o.Listen, o.As)
	if err != nil {
		return nil, err
	}
	if o.superuser != nil {
		o.superuser.addr = place.Addr
	}
	return &Sandbox{place, l.c}, nil
}

// A superuser is the superuser of a private sandbox.
type superuser struct {
	addr       string // address of the sandbox
	credential zkconn.Credential
}

// isOf reports whether the connect string spec names the sandbox of the superuser. u may be nil.
func (u *superuser) isOf(spec string) bool {
	servers, err := zkconn.ParseServers(spec)
	return err == nil && u != nil && slices.Equal(servers.Hosts, []string{u.addr})
}

// load reads a file into a server. limit is the memory for both, in bytes. Four fifths of it are for the
// server's tree. The rest is for what the reader of the file keeps, and for garbage.
func load(ctx context.Context, server *sandbox.Server, name string, limit int64) (c *contents, err error) {
	f, err := dump.OpenFile(ctx, name, dump.MaxSize(limit/5))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	c = &contents{file: name, kinds: map[dump.Kind]int{}}
	for z, err := range f.Znodes() {
		if err == nil {
			err = c.load(server, f, z)
		}
		if errors.Is(err, dump.ErrTooLarge) || errors.Is(err, sandbox.ErrTooLarge) {
			return nil, fmt.Errorf("%s: the sandbox would need more than %d MiB of memory, after %s of the file; "+
				"the limit is three quarters of this machine's memory, or GOMEMLIMIT if that is lower",
				name, limit>>20, zktree.Znodes(c.znodes))
		}
		if err != nil {
			return nil, err
		}
	}
	c.header, c.trailer = f.Header, f.Trailer
	c.zxid = max(c.zxid, c.header.Zxid, c.trailer.Zxid)
	return c, nil
}

// load loads a znode of the file f into a server, and counts it.
func (c *contents) load(server *sandbox.Server, f *dump.File, z *dump.Znode) error {
	top := f.Header.Root
	if f.Part > 1 { // a later dump need not contain the ancestors of its znodes
		top = z.Path
	}
	switch err := server.Load(loadable(z, f.Snapshot), top); {
	case errors.Is(err, sandbox.ErrLoaded) && f.Part > 1:
		return nil // if several dumps contain a znode, the first one counts
	case err != nil:
		return fmt.Errorf("%s: %s: %w", c.file, z.Path, err)
	}
	c.add(z)
	return nil
}

// loadable returns a znode of a file in the form that a sandbox stores.
func loadable(z *dump.Znode, snapshot bool) *sandbox.Znode {
	to := &sandbox.Znode{Path: z.Path, Data: z.Data, ACL: z.ACL, TTL: z.TTL, Container: z.Kind == dump.Container}
	if z.ACL == nil {
		to.ACL = zk.WorldACL(zk.PermAll)
	}
	if st := z.Stat; st != nil {
		to.Stat = *st
		// In a snapshot, Cversion is the number of created children. An export contains the value that
		// servers show to clients: the number of created and of deleted children.
		if to.Creates = st.Cversion; !snapshot {
			to.Creates = (st.Cversion + st.NumChildren) / 2
		}
	}
	return to
}

// add counts a znode.
func (c *contents) add(z *dump.Znode) {
	c.znodes++
	c.kinds[z.Kind]++
	if z.ACL == nil {
		c.openACLs++
	}
	if st := z.Stat; st != nil {
		c.zxid = max(c.zxid, st.Czxid, st.Mzxid, st.Pzxid)
		c.changed = max(c.changed, st.Ctime, st.Mtime)
	}
}

// facts returns the description for the command sandbox.
func (c *contents) facts() render.Facts {
	facts := render.Facts{"file", c.file, "znodes", c.znodes}
	for _, kind := range []dump.Kind{dump.Ephemeral, dump.Container, dump.TTL} {
		if n := c.kinds[kind]; n > 0 {
			facts = append(facts, kind.String(), n)
		}
	}
	if c.zxid > 0 {
		facts = append(facts, "zxid", render.Hex(c.zxid))
	}
	if c.changed > 0 {
		facts = append(facts, "lastChange", render.Time(time.UnixMilli(c.changed)))
	}
	if !c.header.Time.IsZero() {
		facts = append(facts, "exported", render.Time(c.header.Time))
	}
	if c.header.Server != "" {
		facts = append(facts, "exportedFrom", c.header.Server)
	}
	return facts
}

// String returns the description for the banner.
func (c *contents) String() string {
	text := render.Safe(c.file) + " (" + zktree.Znodes(c.znodes)
	if c.zxid > 0 {
		text += ", up to zxid " + render.Hex(c.zxid)
	}
	if c.changed > 0 {
		text += ", last changed at " + render.Time(time.UnixMilli(c.changed))
	}
	return text + ")"
}

// remarks returns what the user should know about the file besides its description.
func (c *contents) remarks() (remarks []string) {
	if err := c.trailer.Lacks(); err != nil {
		remarks = append(remarks, c.file+": "+err.Error())
	}
	if c.openACLs > 0 {
		remarks = append(remarks, fmt.Sprintf("%s: the file lacks the ACLs of %s; "+
			"in the sandbox, these znodes are open to everybody", c.file, zktree.Znodes(c.openACLs)))
	}
	return remarks
}

// memoryLimit returns the memory that a loaded sandbox may use, in bytes: three quarters of the
// machine's memory, or the limit in GOMEMLIMIT if that is lower.
func memoryLimit() int64 {
	return min(machineMemory()/4*3, debug.SetMemoryLimit(-1))
}

// unknownMemory is the assumed memory of a machine that does not report it, in bytes.
const unknownMemory = 4 << 30
