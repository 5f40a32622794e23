package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/peer"
)

// Clients describes the clients that are connected to the servers of an ensemble.
type Clients struct {
	Addrs map[int64]string // client addresses, by session ID
	Skew  time.Duration    // lead of the server's clock over this computer's; 0 if unknown
	All   bool             // whether every server of the ensemble reported its clients
	Why   string           // reason why All is false, as a message for the user; empty if All is true
}

// NoConnection is used in place of the address of a client that is not connected to any server.
const NoConnection = "no connection"

const (
	adminPort = "8080"   // default port of the AdminServer
	maxAnswer = 16 << 20 // maximum size of an AdminServer's answer, in bytes
)

// FindClients asks all servers in the connect string, at the same time, which clients are
// connected to them.
func FindClients(ctx context.Context, e Ensemble) *Clients { return findClients(ctx, e, adminPort) }

func findClients(ctx context.Context, e Ensemble, admin string) *Clients {
	ctx, cancel := context.WithTimeout(ctx, clientsLimit)
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

// gather merges the servers' answers into one Clients. It sets All only if every server answered,
// and the ensemble does not have more members than these servers.
func gather(answers []answer, members int, own connection) *Clients {
	c := &Clients{Addrs: map[int64]string{}}
	since := map[int64]time.Time{}
	answered := 0
	for _, a := range answers {
		if a.err == nil {
			answered++
		} else if c.Why == "" {
			c.Why = a.err.Error()
		}
		for _, conn := range a.conns {
			if conn.since.Before(since[conn.session]) {
				// The session has moved to another server. This older entry is from its previous
				// server.
				continue
			}
			c.Addrs[conn.session], since[conn.session] = conn.addr, conn.since
			if conn.session == own.session && !conn.since.IsZero() {
				c.Skew = conn.since.Sub(own.since)
			}
		}
	}
	c.All = answered == len(answers) && members > 0 && answered >= members
	if answered > 0 && answered < len(answers) {
		c.Why = fmt.Sprintf("%d of %d servers did not report them: %s", len(answers)-answered, len(answers), c.Why)
	}
	return c
}

// countMembers returns the number of servers in the ensemble, or 0 if the number is unknown.
func countMembers(ctx context.Context, e Ensemble) int {
	config, err := e.Config(ctx)
	if err != nil {
		return 0 // the server is too old, or zksh may not read the configuration
	}
	return max(len(parseMembers(config, "")), 1) // the configuration of a stand-alone server lists no members
}

// An answer is one server's list of connections.
type answer struct {
	conns []connection
	err   error // short reason for the user why the list is unknown; nil if it is known
}

// A connection describes one client's connection to a server.
type connection struct {
	session int64
	addr    string
	since   time.Time     // start of the connection, by the server's clock; zero if unknown
	timeout time.Duration // session timeout; 0 if unknown
}

// askHost asks a server for its connections with the four-letter command cons. If the server rejects
// the command, askHost asks the AdminServer instead.
func askHost(ctx context.Context, e Ensemble, addr, admin string) answer {
	text, err := ask(ctx, e, addr, "cons")
	switch {
	case peer.Refused(err):
		return answer{} // no server is running at addr, so no client is connected to it
	case ctx.Err() != nil:
		return answer{err: err}
	case err == nil:
		return parseCons(text)
	}
	host, _, splitErr := net.SplitHostPort(addr)
	if splitErr != nil {
		return answer{err: splitErr}
	}
	if conns, err := askAdmin(ctx, e.Dial, net.JoinHostPort(host, admin)); err == nil {
		return answer{conns: conns}
	}
	return answer{err: err}
}

// parseCons parses the reply to the four-letter command cons, which has lines like
//
//	/127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x1000…,lop=PING,est=1795188561000,…)
//
// Servers of other products omit "/", "[1]" and "queued=0,".
func parseCons(text string) answer {
	var a answer
	for l := range strings.Lines(text) {
		addr, fields, ok := strings.Cut(strings.TrimSpace(l), "(")
		sid, err := strconv.ParseUint(field(fields, "sid=0x"), 16, 64)
		if !ok || err != nil { // a connection without a session, such as the one that sent the command cons
			continue
		}
		if strings.HasSuffix(addr, "]") {
			addr = addr[:max(strings.LastIndexByte(addr, '['), 0)]
		}
		c := connection{session: int64(sid), addr: strings.TrimPrefix(addr, "/")}
		if ms, err := strconv.ParseInt(field(fields, "est="), 10, 64); err == nil {
			c.since = time.UnixMilli(ms)
		}
		if ms, err := strconv.ParseInt(field(fields, "to="), 10, 64); err == nil {
			c.timeout = time.Duration(ms) * time.Millisecond
		}
		a.conns = append(a.conns, c)
	}
	if len(a.conns) == 0 && !strings.Contains(text, "(queued=") && !strings.Contains(text, "(recved=") {
		a.err = errors.New("cannot parse the server's reply to the four-letter command cons")
	}
	return a
}

// field returns the text between name, such as "est=", and the next comma in a line of the reply
// to cons.
func field(fields, name string) string {
	_, rest, _ := strings.Cut(fields, name)
	value, _, _ := strings.Cut(strings.TrimRight(rest, ")"), ",")
	return value
}

// askAdmin reads the list of a server's connections from its AdminServer at addr. It calls dial to
// connect. It speaks HTTP itself, because package net/http would make zksh 1 MB larger.
func askAdmin(
	ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), addr string,
) ([]connection, error) {
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := fmt.Fprintf(c, "GET /commands/connections HTTP/1.0\r\nHost: %s\r\n\r\n", addr); err != nil {
		return nil, err
	}
	reply := textproto.NewReader(bufio.NewReader(io.LimitReader(c, maxAnswer)))
	status, err := reply.ReadLine() // such as HTTP/1.1 200 OK
	if err != nil {
		return nil, err
	}
	if version, rest, _ := strings.Cut(status, " "); !strings.HasPrefix(version, "HTTP/1.") ||
		!strings.HasPrefix(rest, "200 ") {
		return nil, fmt.Errorf("the AdminServer replied %q", status)
	}
	if _, err := reply.ReadMIMEHeader(); err != nil {
		return nil, err
	}
	var list struct {
		Connections []adminConnection `json:"connections"`
		Secure      []adminConnection `json:"secure_connections"`
	}
	if err := json.NewDecoder(reply.R).Decode(&list); err != nil {
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

// An adminConnection is an entry in the AdminServer's list of connections.
type adminConnection struct {
	Remote  string `json:"remote_socket_address"`
	Session int64  `json:"session_id"`
}
