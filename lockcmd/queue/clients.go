package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/peer"
)

// Look is Read with what the servers tell of the clients, who are asked meanwhile.
// Somebody who seems not to be connected may have come in between, so that is
// asked again.
func Look(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	found := make(chan *clients, 1)
	go func() { found <- findClients(ctx, e, adminPort) }() // bounded, and received below
	q, err := Read(ctx, e, path)
	c := <-found
	if err != nil {
		return nil, err
	}
	q.addClients(c)
	if q.orphans() {
		q.addClients(findClients(ctx, e, adminPort))
	}
	return q, nil
}

// clients is what the servers tell of their connections.
type clients struct {
	addrs map[int64]string // of clients, by session
	skew  time.Duration    // what the server's clock is ahead of ours
	all   bool             // every server of the ensemble told
	why   string           // why not; for a person
}

const noConnection = "no connection"

// Bounds of asking: the addresses are an extra that nobody shall wait for.
const (
	askLimit  = time.Second
	adminPort = "8080"   // of the AdminServer, by default
	maxAnswer = 16 << 20 // of an AdminServer
)

// findClients asks every server of the connect string at once.
func findClients(ctx context.Context, e Ensemble, admin string) *clients {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	hosts := e.Hosts()
	answers := make([]answer, len(hosts))
	members := 0
	var asking sync.WaitGroup
	asking.Go(func() { members = countMembers(ctx, e) })
	for i, h := range hosts {
		asking.Go(func() { answers[i] = askHost(ctx, e, h, admin) })
	}
	asking.Wait()
	own := connection{}
	own.session, own.since = e.Self()
	return gather(answers, members, own)
}

// gather puts the answers together. All told if there are as many as the
// ensemble has members.
func gather(answers []answer, members int, own connection) *clients {
	c := &clients{addrs: map[int64]string{}}
	since := map[int64]time.Time{}
	told := 0
	for _, a := range answers {
		if a.err == nil {
			told++
		} else if c.why == "" {
			c.why = a.err.Error()
		}
		for _, conn := range a.conns {
			if conn.since.Before(since[conn.session]) {
				continue // for a moment two servers list a session that has moved
			}
			c.addrs[conn.session], since[conn.session] = conn.addr, conn.since
			if conn.session == own.session && !conn.since.IsZero() {
				c.skew = conn.since.Sub(own.since)
			}
		}
	}
	c.all = told == len(answers) && members > 0 && told >= members
	if told > 0 && told < len(answers) {
		c.why = fmt.Sprintf("%d of %d servers did not report them: %s", len(answers)-told, len(answers), c.why)
	}
	return c
}

// countMembers is how many servers the ensemble has; 0: it does not say.
func countMembers(ctx context.Context, e Ensemble) int {
	config, err := e.Config(ctx)
	if err != nil {
		return 0 // an old server, or one that keeps it to itself
	}
	return max(len(parseMembers(config, "")), 1) // one that stands alone has no list
}

// answer is what one server told.
type answer struct {
	conns []connection
	err   error // its text is for a person, a few words
}

// connection is one client of a server.
type connection struct {
	session int64
	addr    string
	since   time.Time // by the server's clock; zero: not told
}

// askHost asks a server for its connections: by cons, else its AdminServer.
func askHost(ctx context.Context, e Ensemble, addr, admin string) answer {
	text, err := ask(ctx, e, addr, "cons")
	switch {
	case peer.Refused(err):
		return answer{} // nobody is there, and so nobody is connected
	case ctx.Err() != nil:
		return answer{err: err}
	case err == nil:
		return parseCons(text)
	}
	host, _, splitErr := net.SplitHostPort(addr)
	if splitErr != nil {
		return answer{err: splitErr}
	}
	if conns, err := askAdmin(ctx, "http://"+net.JoinHostPort(host, admin)+"/commands/connections"); err == nil {
		return answer{conns: conns}
	}
	return answer{err: err}
}

// parseCons reads lines like
//
//	/127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x1000…,lop=PING,est=1795188561000,…)
//
// of which other servers write neither "/" nor "[1]" nor "queued=0,".
func parseCons(text string) answer {
	var a answer
	for l := range strings.Lines(text) {
		addr, fields, ok := strings.Cut(strings.TrimSpace(l), "(")
		sid, err := strconv.ParseUint(field(fields, "sid=0x"), 16, 64)
		if !ok || err != nil { // a connection without a session yet, such as ours that asks
			continue
		}
		if strings.HasSuffix(addr, "]") {
			addr = addr[:max(strings.LastIndexByte(addr, '['), 0)]
		}
		c := connection{session: int64(sid), addr: strings.TrimPrefix(addr, "/")}
		if ms, err := strconv.ParseInt(field(fields, "est="), 10, 64); err == nil {
			c.since = time.UnixMilli(ms)
		}
		a.conns = append(a.conns, c)
	}
	if len(a.conns) == 0 && !strings.Contains(text, "(queued=") && !strings.Contains(text, "(recved=") {
		a.err = errors.New("cannot parse the server's reply to the four-letter command cons")
	}
	return a
}

// field is the value of one field of a line of cons.
func field(fields, name string) string {
	_, rest, _ := strings.Cut(fields, name)
	value, _, _ := strings.Cut(strings.TrimRight(rest, ")"), ",")
	return value
}

// askAdmin asks an AdminServer.
func askAdmin(ctx context.Context, url string) ([]connection, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy: it is about this very host
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	var list struct {
		Connections []adminConnection `json:"connections"`
		Secure      []adminConnection `json:"secure_connections"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&list); err != nil {
		return nil, err
	}
	if list.Connections == nil {
		return nil, errors.New("the AdminServer's reply does not contain a list of connections")
	}
	var conns []connection
	for _, c := range append(list.Connections, list.Secure...) {
		conns = append(conns, connection{session: c.Session, addr: strings.TrimPrefix(c.Remote, "/")})
	}
	return conns, nil
}

// adminConnection is what we read of a connection in the AdminServer's list.
type adminConnection struct {
	Remote  string `json:"remote_socket_address"`
	Session int64  `json:"session_id"`
}

// addClients adds what the servers told of the contenders' connections.
func (q *Queue) addClients(c *clients) {
	missing := false
	for _, who := range q.Contenders {
		owner := who.stat.EphemeralOwner
		addr, known := c.addrs[owner]
		switch {
		case known:
			who.Client = addr
		case who.Session == "": // a node that outlives sessions
		case c.all:
			who.Client = noConnection
		default:
			missing = true
		}
	}
	if missing {
		q.NoClients = c.why
		if q.NoClients == "" {
			q.NoClients = "zksh does not know all servers of the ensemble"
		}
	}
	q.setAges(c.now(q))
}

// now is the server's time: ours and what its clock is ahead, but no earlier
// than the latest contender's node.
func (c *clients) now(q *Queue) time.Time {
	now := time.Now()
	if c.skew.Abs() > time.Second { // less may be the network's
		now = now.Add(c.skew)
	}
	for _, who := range q.Contenders {
		if made := time.UnixMilli(who.stat.Ctime); made.After(now) {
			now = made
		}
	}
	return now
}

// orphans tells whether there is a contender without a connection.
func (q *Queue) orphans() bool {
	return slices.ContainsFunc(q.Contenders, func(c *Contender) bool { return c.Client == noConnection })
}
