package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/render"
)

// Servers describes all servers of an ensemble, according to their own reports.
type Servers struct {
	Members  int       `json:"members"`  // number of members of the ensemble
	Voters   int       `json:"voters"`   // number of members that may vote
	Answered int       `json:"answered"` // number of members that answered
	Quorum   bool      `json:"quorum"`   // whether more than half of the voters serve clients, one of them as the leader
	Servers  []*Server `json:"servers"`
	NotTold  []string  `json:"notTold,omitempty"` // facts that servers do not report, each with the reason and often a remedy
}

// Server describes one member of an ensemble, according to its own report.
type Server struct {
	Addr        string `json:"server"`
	Role        string `json:"role"`              // leader, follower, observer, standalone or read-only; empty if the server did not answer
	Product     string `json:"product,omitempty"` // name of the product if it is not ZooKeeper
	Version     string `json:"version,omitempty"`
	Zxid        string `json:"zxid,omitempty"`
	Lag         string `json:"lag,omitempty"`     // number of transactions behind the newest server, or "an epoch" if their epochs differ
	Latency     string `json:"latency,omitempty"` // in milliseconds: min/avg/max
	Connections string `json:"connections,omitempty"`
	Watches     string `json:"watches,omitempty"`
	Bugs        []Bug  `json:"bugs,omitempty"`    // known bugs of this version; empty for other products and unknown versions
	Problem     string `json:"problem,omitempty"` // reason why the member did not answer

	zxid int64
}

// FindServers asks all members of the ensemble at the same time: the servers in the connect
// string and the others in the ensemble's configuration.
func FindServers(ctx context.Context, e Ensemble) *Servers {
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
		asking.Go(func() { s.Servers[i], why[i] = askServer(ctx, e, addr) })
	}
	asking.Wait()
	s.deriveQuorum()
	for _, w := range why {
		if w != "" && !slices.Contains(s.NotTold, w) {
			s.NotTold = append(s.NotTold, w)
		}
	}
	return s
}

// deriveQuorum determines whether there is a quorum, and how far each server lags behind, from
// the replies of all servers.
func (s *Servers) deriveQuorum() {
	serving, led, furthest := 0, false, int64(0)
	for _, v := range s.Servers {
		furthest = max(furthest, v.zxid)
		if v.Role != "" {
			s.Answered++
		}
		if leads(v.Role) {
			led = true
		}
		if leads(v.Role) || v.Role == "follower" {
			serving++
		}
	}
	s.Quorum = led && 2*serving > s.Voters
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

// leads reports whether a server with this role executes the writes of its ensemble.
func leads(role string) bool { return role == "leader" || role == "standalone" }

// maxProblem is the maximum width of an unexpected reply in the field Server.Problem, in terminal
// columns. A longer reply is truncated.
const maxProblem = 120

// askServer asks one server about itself. why says which facts the server does not report, or is
// empty if it reports all of them.
func askServer(ctx context.Context, e Ensemble, addr string) (s *Server, why string) {
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
	facts := parsePairs(text, ": ")
	if s.Role = facts["Mode"]; s.Role == "" {
		first, _, _ := strings.Cut(text, "\n")
		s.Problem = cmp.Or(render.Cut(first, maxProblem), "empty reply: a TLS port, or not a ZooKeeper server")
		return s, ""
	}
	s.Product, s.Version = productOf(text)
	if s.Product == "" {
		s.Bugs = bugsIn(s.Version)
	}
	s.Zxid, s.Latency, s.Connections = facts["Zxid"], facts["Latency min/avg/max"], facts["Connections"]
	if n, err := strconv.ParseUint(s.Zxid, 0, 64); err == nil { // servers of other products print decimal zxids
		s.zxid = int64(n)
		s.Zxid = render.Hex(s.zxid)
	}
	if text, err = ask(ctx, e, addr, "mntr"); err != nil {
		return s, "watches: " + err.Error()
	}
	s.Watches = parsePairs(text, "\t")["zk_watch_count"]
	return s, ""
}

// productOf parses the first line of the reply to srvr. It returns the name of the product,
// which is empty for ZooKeeper, and the version.
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

// Table returns a table with one row for each member.
func (s *Servers) Table() render.Grid {
	g := render.Grid{Header: []string{"SERVER", "ROLE", "VERSION", "ZXID", "LAG", "LATENCY", "CONNECTIONS", "WATCHES"}}
	for _, v := range s.Servers {
		row := []string{v.Addr, cmp.Or(v.Role, v.Problem), strings.TrimSpace(v.Product + " " + v.Version), v.Zxid,
			v.Lag, v.Latency, v.Connections, v.Watches}
		for i, cell := range row {
			row[i] = cmp.Or(render.Safe(cell), "-")
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// Text prints the table of members, and below it whether there is a quorum and which known bugs
// the members have.
func (s *Servers) Text(w io.Writer) error { return s.FitText(w, 0) }

// FitText prints the same as Text, but makes the table fit into the given number of terminal
// columns.
func (s *Servers) FitText(w io.Writer, columns int) error {
	const role, version, zxid, latency = 1, 2, 3, 5
	g := s.Table().Fit(columns-1, render.Step{Column: version}, render.Step{Column: latency}, render.Step{Column: zxid},
		render.Step{Column: role, Width: 10})
	end := "no quorum"
	if s.Quorum {
		end = "quorum"
	}
	lines := append(g.Lines(), fmt.Sprintf("%s: %d of %d servers answer", end, s.Answered, s.Members))
	lines = append(lines, s.bugLines(columns-1)...)
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// bugLines lists the known bugs of the members, grouped by version. Each group begins with a line
// that contains the version and the addresses of the members. Lines are wrapped to the given number
// of terminal columns.
func (s *Servers) bugLines(columns int) (lines []string) {
	members, bugs, versions := map[string][]string{}, map[string][]Bug{}, []string{}
	for _, v := range s.Servers {
		if len(v.Bugs) == 0 {
			continue
		}
		if bugs[v.Version] == nil {
			versions = append(versions, v.Version)
		}
		bugs[v.Version] = v.Bugs
		members[v.Version] = append(members[v.Version], render.Safe(v.Addr))
	}
	if len(versions) > 0 {
		lines = append(lines, fmt.Sprintf("known bugs (as of %s):", bugsAsOf))
	}
	for _, version := range versions {
		heading := fmt.Sprintf("ZooKeeper %s on %s", version, strings.Join(members[version], ", "))
		lines = append(lines, render.Wrap(heading, columns, "  "))
		for _, b := range bugs[version] {
			lines = append(lines, render.Wrap("  "+b.String(), columns, "    "))
		}
	}
	return lines
}
