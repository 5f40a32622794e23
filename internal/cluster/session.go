package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// States of a session, in addition to NoConnection.
const (
	isConnected = "connected"
	notReported = "not told"
)

// Session describes one session, as the servers report it.
type Session struct {
	ID         string   `json:"session"`
	State      string   `json:"state"`            // "connected", "no connection" or "not told"
	GoneIn     string   `json:"goneIn,omitempty"` // upper limit on the time until the session expires; empty if the session is connected or the time is unknown
	Client     string   `json:"client,omitempty"` // address of the client
	Server     string   `json:"server,omitempty"` // server to which the client is connected
	Since      string   `json:"since,omitempty"`  // start of the connection, in RFC 3339 and UTC
	Timeout    string   `json:"timeout,omitempty"`
	LastOp     string   `json:"lastOp,omitempty"`
	Latency    string   `json:"latency,omitempty"` // in milliseconds: min/avg/max
	Identities []string `json:"identities,omitempty"`
	Ephemerals []string `json:"ephemerals"`
	Watches    []string `json:"watches"` // paths with data watches; servers do not report child watches
}

// Coverage says how many servers of the ensemble contributed to a result, and what is missing.
type Coverage struct {
	Answered int      `json:"answered"`
	Members  int      `json:"members"`
	NotTold  []string `json:"notTold,omitempty"` // missing facts, each with the reason and often a remedy
}

// missing records that a fact is unknown, and the first of the reasons. If reasons is empty, the
// fact is known, and missing does nothing.
func (c *Coverage) missing(fact string, reasons []string) {
	if len(reasons) > 0 {
		c.NotTold = append(c.NotTold, fact+": "+reasons[0])
	}
}

// FindSession finds a session by its ID, or, if id is 0, by the address of its client, with or
// without the port. It returns an error if the session is known not to exist, or if not exactly
// one session was found at the address.
func FindSession(ctx context.Context, e Ensemble, id int64, client string) (*Session, *Coverage, error) {
	ctx, cancel := context.WithTimeout(ctx, serversLimit)
	defer cancel()
	addrs, members, configured := findMembers(ctx, e)
	s := &Session{Ephemerals: []string{}, Watches: []string{}}
	c := &Coverage{Members: max(len(members), len(addrs))}
	texts, why := askEach(ctx, e, addrs, "cons")
	c.Answered = len(addrs) - len(why)
	c.missing("address, server, latency", why)
	id, err := s.fillFromCons(addrs, texts, id, client, c.NotTold)
	if err != nil {
		return nil, nil, err
	}
	s.ID = render.Hex(id)
	known, err := s.fillFromDump(ctx, e, addrs[0], id)
	if err != nil {
		// The locks are unknown, too, because the caller finds them by their ephemeral znodes.
		c.missing("ephemerals, locks", []string{err.Error()})
	}
	all := configured && c.Answered == c.Members
	if !configured {
		c.missing("other servers", []string{membersNotReported})
	}
	switch {
	case s.Client != "":
		s.State, s.GoneIn = isConnected, ""
	case all && known:
		s.State = NoConnection
		s.GoneIn = cmp.Or(s.GoneIn, maxSessionTimeout(ctx, e, addrs[0]))
	case all && err == nil:
		return nil, nil, fmt.Errorf("there is no session %s", s.ID)
	default:
		s.State, s.GoneIn = notReported, ""
	}
	texts, why = askEach(ctx, e, addrs, "wchc")
	c.missing("data watches", why)
	for _, text := range texts {
		for _, p := range pathsBySession(text)[id] {
			s.Watches = append(s.Watches, e.ClientPath(p))
		}
	}
	slices.Sort(s.Watches)
	return s, c, nil
}

// fillFromCons fills in the connection of the session from the servers' replies to the four-letter
// command cons, and returns the session's ID. If some servers did not reply, missing contains an
// error message for each of them.
func (s *Session) fillFromCons(addrs, texts []string, id int64, client string, missing []string) (int64, error) {
	newest, found := int64(math.MinInt64), map[int64]bool{}
	for i, text := range texts {
		for l := range strings.Lines(text) {
			a := parseCons(l)
			if len(a.conns) != 1 {
				continue
			}
			c := a.conns[0]
			host, _, _ := net.SplitHostPort(c.addr)
			if id != 0 && c.session != id || id == 0 && c.addr != client && host != client {
				continue
			}
			found[c.session] = true
			// The old server of a session that has moved may still list it.
			if at := c.since.UnixMilli(); at >= newest {
				newest = at
				s.fillFromLine(addrs[i], strings.TrimSpace(l), c)
			}
		}
	}
	switch {
	case id != 0:
		return id, nil
	case len(found) > 1:
		return 0, fmt.Errorf("%d sessions are connected from %s; to choose one, add its port to the address", len(found), client)
	}
	for id := range found {
		return id, nil
	}
	if len(missing) > 0 {
		return 0, fmt.Errorf("found no session from %s, but some servers did not report all of their sessions: %s", client, missing[0])
	}
	return 0, fmt.Errorf("there is no session from %s", client)
}

// fillFromLine fills in the connection of the session from one line of a reply to the four-letter
// command cons.
func (s *Session) fillFromLine(server, line string, c connection) {
	s.Client, s.Server = c.addr, server
	if !c.since.IsZero() {
		s.Since = render.Time(c.since)
	}
	if ms, err := strconv.Atoi(field(line, "to=")); err == nil {
		s.Timeout = (time.Duration(ms) * time.Millisecond).String()
	}
	s.LastOp = field(line, "lop=")
	s.Latency = field(line, "minlat=") + "/" + field(line, "avglat=") + "/" + field(line, "maxlat=")
}

// fillFromDump fills in the session's ephemeral znodes from a server's reply to the four-letter
// command dump. It also fills in the time until the session expires if its client stays silent.
// known reports whether the session exists.
func (s *Session) fillFromDump(ctx context.Context, e Ensemble, addr string, id int64) (known bool, err error) {
	text, err := ask(ctx, e, addr, "dump")
	if err != nil {
		return false, err
	}
	all, err := ephemerals(text)
	if err != nil {
		return false, err
	}
	list, known := all[id]
	for _, p := range list {
		s.Ephemerals = append(s.Ephemerals, e.ClientPath(p))
	}
	slices.Sort(s.Ephemerals)
	tracked, _, _ := strings.Cut(text, "ephemeral nodes dump:")
	var end time.Time
	for l := range strings.Lines(tracked) {
		if _, date, ok := strings.Cut(strings.TrimSpace(l), " expire at "); ok {
			end, _ = time.Parse(javaDate, strings.TrimSuffix(date, ":")) // end is zero if the format is unknown
		}
		if first := strings.Fields(l); len(first) > 0 && first[0] == s.ID {
			known = true
			if left := time.Until(end); left > 0 && left < time.Hour {
				s.GoneIn = left.Round(time.Second).String()
			}
		}
	}
	return known, nil
}

// javaDate is the format of java.util.Date, in which dump prints the expiry of a session.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// maxSessionTimeout returns a server's setting maxSessionTimeout, or an empty string if it is
// unknown.
func maxSessionTimeout(ctx context.Context, e Ensemble, addr string) string {
	text, err := ask(ctx, e, addr, "conf")
	if err != nil {
		return ""
	}
	_, value, _ := strings.Cut(text, "maxSessionTimeout=")
	value, _, _ = strings.Cut(value, "\n")
	ms, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// Facts returns one row for each known fact about the session: its name and its value.
func (s *Session) Facts() (rows [][]string) {
	state := s.State
	if state == notReported { // users see a plain word instead of the JSON value notReported
		state = "unknown"
	}
	if s.GoneIn != "" {
		state += " (gone in <= " + s.GoneIn + ")"
	}
	add := func(name string, values ...string) {
		for _, v := range values {
			if v != "" {
				rows = append(rows, []string{name, v})
				name = ""
			}
		}
	}
	add("session", s.ID)
	add("state", state)
	add("client", s.Client)
	add("server", s.Server)
	add("since", s.Since)
	add("timeout", s.Timeout)
	add("last operation", s.LastOp)
	add("latency", s.Latency)
	add("identities", s.Identities...)
	add("ephemerals", s.Ephemerals...)
	add("data watches", s.Watches...)
	return rows
}
