package queue

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/render"
)

// Servers is what the servers of an ensemble tell of themselves.
type Servers struct {
	Members  int       `json:"members"`  // of the ensemble
	Voters   int       `json:"voters"`   // of these
	Answered int       `json:"answered"` // of the members
	Quorum   bool      `json:"quorum"`   // more than half of the voters serve, one of them as the leader
	Servers  []*Server `json:"servers"`
	NotTold  []string  `json:"notTold,omitempty"` // what the servers keep to themselves, and how to allow it
}

// Server is one member.
type Server struct {
	Addr        string `json:"server"`
	Role        string `json:"role"`              // leader, follower, observer, standalone, read-only; empty without an answer
	Product     string `json:"product,omitempty"` // if it is not ZooKeeper
	Version     string `json:"version,omitempty"`
	Zxid        string `json:"zxid,omitempty"`
	Lag         string `json:"lag,omitempty"`     // transactions behind the furthest one, or "an epoch"
	Latency     string `json:"latency,omitempty"` // ms: min/avg/max
	Connections string `json:"connections,omitempty"`
	Watches     string `json:"watches,omitempty"`
	Problem     string `json:"problem,omitempty"` // why there is no answer

	zxid int64
}

// serversLimit bounds how long an answer is waited for.
const serversLimit = 3 * time.Second

// LookServers asks all members at once. Those of the connect string are asked first,
// and then, if they are fewer than the ensemble has, the others by what its
// configuration says of them.
func LookServers(ctx context.Context, e Ensemble) *Servers {
	ctx, cancel := context.WithTimeout(ctx, serversLimit)
	defer cancel()
	addrs, members, _ := findMembers(ctx, e)
	s := &Servers{Members: len(addrs), Voters: len(addrs)}
	if len(members) > 0 {
		s.Members, s.Voters = len(members), 0
		for _, m := range members {
			if !m.observer {
				s.Voters++
			}
		}
	}
	s.Servers = make([]*Server, len(addrs))
	why := make([]string, len(addrs))
	var asking sync.WaitGroup
	for i, addr := range addrs {
		asking.Go(func() { s.Servers[i], why[i] = lookServer(ctx, e, addr) })
	}
	asking.Wait()
	s.count()
	for _, w := range why {
		if w != "" && !slices.Contains(s.NotTold, w) {
			s.NotTold = append(s.NotTold, w)
		}
	}
	return s
}

// count adds up what the answers make together.
func (s *Servers) count() {
	serving, leads, furthest := 0, false, int64(0)
	for _, v := range s.Servers {
		furthest = max(furthest, v.zxid)
		if v.Role != "" {
			s.Answered++
		}
		switch v.Role {
		case "leader", "standalone":
			leads = true
			serving++
		case "follower":
			serving++
		}
	}
	s.Quorum = leads && 2*serving > s.Voters
	for _, v := range s.Servers {
		switch {
		case v.Zxid == "":
		case v.zxid>>32 != furthest>>32:
			v.Lag = "an epoch"
		default:
			v.Lag = strconv.FormatInt(furthest-v.zxid, 10)
		}
	}
}

// lookServer asks one server. why tells what it keeps to itself.
func lookServer(ctx context.Context, e Ensemble, addr string) (s *Server, why string) {
	s = &Server{Addr: addr}
	text, err := ask(ctx, e, addr, "srvr")
	switch {
	case peer.Refused(err):
		s.Problem = "no server is listening"
		return s, ""
	case err != nil:
		s.Problem = err.Error()
		return s, ""
	}
	facts := pairs(text, ": ")
	if s.Role = facts["Mode"]; s.Role == "" {
		first, _, _ := strings.Cut(text, "\n")
		s.Problem = cmp.Or(render.Cut(first, 3*whoColumns), "empty reply: a TLS port, or not a ZooKeeper server")
		return s, ""
	}
	s.Product, s.Version = productOf(text)
	s.Zxid, s.Latency, s.Connections = facts["Zxid"], facts["Latency min/avg/max"], facts["Connections"]
	if n, err := strconv.ParseUint(s.Zxid, 0, 64); err == nil { // other servers have decimals
		s.zxid = int64(n)
		s.Zxid = render.Hex(s.zxid)
	}
	counters, err := counters(ctx, e, addr)
	if err != nil {
		return s, "watches: " + err.Error()
	}
	s.Watches = counters["zk_watch_count"]
	return s, ""
}

// productOf reads the first line of srvr: what the server is, unless that is ZooKeeper, and its
// version.
func productOf(text string) (product, version string) {
	first, _, _ := strings.Cut(text, "\n")
	product, version, found := strings.Cut(strings.TrimSpace(first), " version: ")
	if !found {
		return "", ""
	}
	version = strings.TrimPrefix(version, product+" ")
	version, _, _ = strings.Cut(version, ",")
	version, _, _ = strings.Cut(version, "-")
	if strings.EqualFold(product, "zookeeper") {
		product = ""
	}
	return product, version
}

// counters are what mntr tells of a server, by name.
func counters(ctx context.Context, e Ensemble, addr string) (map[string]string, error) {
	text, err := ask(ctx, e, addr, "mntr")
	if err != nil {
		return nil, err
	}
	return pairs(text, "\t"), nil
}

// pairs reads lines of a name and a value.
func pairs(text, between string) map[string]string {
	values := map[string]string{}
	for l := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), between); ok {
			values[name] = value
		}
	}
	return values
}

// member is a server as the configuration has it.
type member struct {
	addr     string // of clients
	observer bool
}

// membersNotTold is why something may be missing although all that are known answered.
const membersNotTold = "the ensemble does not report its members"

// findMembers gives the addresses to ask: the connect string's, and the
// configuration's members that are not among these. told is false if it does not
// tell them; a server that stands alone has none.
func findMembers(ctx context.Context, e Ensemble) (addrs []string, members []member, told bool) {
	addrs = e.Hosts()
	reading, cancel := context.WithTimeout(ctx, askLimit) // which waits for a connection
	defer cancel()
	config, err := e.Config(reading)
	if err != nil {
		return addrs, nil, false
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	members = parseMembers(config, port)
	if len(addrs) >= len(members) {
		return addrs, members, true
	}
	known := map[string]bool{}
	for _, a := range addrs {
		for _, r := range resolved(reading, a) {
			known[r] = true
		}
	}
	for _, m := range members {
		if !slices.ContainsFunc(resolved(reading, m.addr), func(r string) bool { return known[r] }) {
			addrs = append(addrs, m.addr)
		}
	}
	return addrs, members, true
}

// resolved is an address by its numbers, and as it is.
func resolved(ctx context.Context, addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return []string{addr}
	}
	all := []string{addr}
	ips, _ := net.DefaultResolver.LookupHost(ctx, host) // a name without numbers has itself alone
	for _, ip := range ips {
		all = append(all, net.JoinHostPort(ip, port))
	}
	return all
}

// parseMembers reads lines like server.1=zk1:2888:3888:participant;0.0.0.0:2181. A
// member that does not tell its clients' address has the given port.
func parseMembers(config, port string) (members []member) {
	for l := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), "=")
		if !strings.HasPrefix(key, "server.") {
			continue
		}
		quorum, client, _ := strings.Cut(value, ";")
		quorum, _, _ = strings.Cut(quorum, "|") // the first of several addresses
		host, _, _ := strings.Cut(quorum, ":")
		if v6, _, ok := strings.Cut(strings.TrimPrefix(quorum, "["), "]"); ok {
			host = v6
		}
		m := member{addr: net.JoinHostPort(host, port), observer: strings.HasSuffix(quorum, ":observer")}
		if at, p, err := net.SplitHostPort(client); err == nil {
			if ip := net.ParseIP(at); at != "" && (ip == nil || !ip.IsUnspecified()) {
				host = at
			}
			m.addr = net.JoinHostPort(host, p)
		} else if client != "" {
			m.addr = net.JoinHostPort(host, client)
		}
		members = append(members, m)
	}
	return members
}

// Table has a row for each member.
func (s *Servers) Table() render.Grid {
	g := render.Grid{Header: []string{"SERVER", "ROLE", "VERSION", "ZXID", "LAG", "LATENCY", "CONNECTIONS", "WATCHES"}}
	for _, v := range s.Servers {
		row := []string{v.Addr, cmp.Or(v.Role, v.Problem), strings.TrimSpace(v.Product + " " + v.Version), v.Zxid, v.Lag, v.Latency, v.Connections, v.Watches}
		for i, cell := range row {
			row[i] = cmp.Or(render.Safe(cell), "-")
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// Text is the table, and below it whether there is a quorum.
func (s *Servers) Text(w io.Writer) error { return s.FitText(w, 0) }

// FitText is part of render.Fitter.
func (s *Servers) FitText(w io.Writer, columns int) error {
	const role, version, zxid, latency = 1, 2, 3, 5
	g := s.Table().Fit(columns-1, render.Step{Column: version}, render.Step{Column: latency}, render.Step{Column: zxid}, render.Step{Column: role, Width: 10})
	end := "no quorum"
	if s.Quorum {
		end = "quorum"
	}
	_, err := fmt.Fprintf(w, "%s\n%s: %d of %d servers answer\n", strings.Join(aligned(g), "\n"), end, s.Answered, s.Members)
	return err
}
