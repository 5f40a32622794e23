package queue

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/render"
)

// What is known of where a client is.
const (
	isConnected = "connected"
	notTold     = "not told"
)

// Session is all that the servers tell of one session.
type Session struct {
	ID         string   `json:"session"`
	State      string   `json:"state"`            // connected, no connection or not told
	GoneIn     string   `json:"goneIn,omitempty"` // without a connection: the longest it can still last
	Client     string   `json:"client,omitempty"` // its address
	Server     string   `json:"server,omitempty"` // that it is connected to
	Since      string   `json:"since,omitempty"`  // when the connection was made: RFC 3339 in UTC
	Timeout    string   `json:"timeout,omitempty"`
	LastOp     string   `json:"lastOp,omitempty"`
	Latency    string   `json:"latency,omitempty"` // ms: min/avg/max
	Identities []string `json:"identities,omitempty"`
	Ephemerals []string `json:"ephemerals"`
	Watches    []string `json:"watches"` // on data or creation; no server tells those on children
	Locks      []Step   `json:"locks"`   // what it holds and waits for
	Answered   int      `json:"answered"`
	Members    int      `json:"members"`
	NotTold    []string `json:"notTold,omitempty"` // and how to allow it
}

// LookSession finds a session by its number, or, if that is 0, by the address of its
// client, whose port may be left out. It is an error if there is none for sure.
func LookSession(ctx context.Context, e Whole, id int64, client string) (*Session, error) {
	asking, cancel := context.WithTimeout(ctx, serversLimit)
	defer cancel()
	addrs, members, told := findMembers(asking, e)
	s := &Session{Members: max(len(members), len(addrs)), Ephemerals: []string{}, Watches: []string{}, Locks: []Step{}}
	texts, why := askEach(asking, e, addrs, "cons")
	s.Answered = len(addrs) - len(why)
	s.missing("address, server, latency", why)
	id, err := s.connection(addrs, texts, id, client)
	if err != nil {
		return nil, err
	}
	s.ID = render.Hex(id)
	known, err := s.owned(asking, e, addrs[0], id)
	if err != nil {
		s.missing("ephemerals, locks", []string{err.Error()})
	}
	all := told && s.Answered == s.Members
	if !told {
		s.missing("other servers", []string{membersNotTold})
	}
	switch {
	case s.Client != "":
		s.State, s.GoneIn = isConnected, ""
	case all && known:
		s.State = noConnection
		s.GoneIn = cmp.Or(s.GoneIn, longest(asking, e, addrs[0]))
	case all && err == nil:
		return nil, fmt.Errorf("there is no session %s", s.ID)
	default:
		s.State, s.GoneIn = notTold, ""
	}
	texts, why = askEach(asking, e, addrs, "wchc")
	s.missing("data watches", why)
	for _, text := range texts {
		for _, p := range blocks(text)[id] {
			s.Watches = append(s.Watches, e.ClientPath(p))
		}
	}
	slices.Sort(s.Watches)
	return s, s.locks(ctx, e)
}

// missing says what could not be learnt, and why.
func (s *Session) missing(what string, why []string) {
	if len(why) > 0 {
		s.NotTold = append(s.NotTold, what+": "+why[0])
	}
}

// askEach sends a word to servers, all at once. why has a text for each that did not
// answer. One that nobody listens at has answered: nobody is connected there.
func askEach(ctx context.Context, e Ensemble, addrs []string, word string) (texts, why []string) {
	texts, errs := make([]string, len(addrs)), make([]error, len(addrs))
	var asking sync.WaitGroup
	for i, addr := range addrs {
		asking.Go(func() { texts[i], errs[i] = ask(ctx, e, addr, word) })
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil && !peer.Refused(err) {
			why = append(why, err.Error())
		}
	}
	return texts, why
}

// connection takes what cons tells of a session, and gives its number.
func (s *Session) connection(addrs, texts []string, id int64, client string) (int64, error) {
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
			if at := c.since.UnixMilli(); at >= newest { // a session that has moved may be told twice
				newest = at
				s.fill(addrs[i], strings.TrimSpace(l), c)
			}
		}
	}
	switch {
	case id != 0:
		return id, nil
	case len(found) > 1:
		return 0, fmt.Errorf("%d sessions come from %s; to choose one, add its port", len(found), client)
	}
	for id := range found {
		return id, nil
	}
	if len(s.NotTold) > 0 {
		return 0, fmt.Errorf("found no session from %s, but the servers did not report everything: %s", client, s.NotTold[0])
	}
	return 0, fmt.Errorf("there is no session from %s", client)
}

// fill takes one line of cons.
func (s *Session) fill(server, line string, c connection) {
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

// owned takes what dump tells of a session: whether it lives, its ephemerals, and
// when it ends unless it is heard of.
func (s *Session) owned(ctx context.Context, e Whole, addr string, id int64) (known bool, err error) {
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
			end, _ = time.Parse(javaDate, strings.TrimSuffix(date, ":")) // what is not understood is left out
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

// javaDate is how Java prints a date, and dump the end of a session.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// longest is how long a session can last at most, as a server is configured.
func longest(ctx context.Context, e Ensemble, addr string) string {
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

// locks reads the queues in which the session has a znode.
func (s *Session) locks(ctx context.Context, e Whole) error {
	folders := map[string]bool{}
	var list []string
	for _, p := range s.Ephemerals {
		list = append(list, e.ServerPath(p))
	}
	addFolders(folders, e, "/", list)
	queues, err := readAll(ctx, e, queueDirs(folders))
	if err != nil {
		return err
	}
	for _, q := range queues {
		q.setAges((&clients{}).now(q))
		for _, c := range q.Contenders {
			if c.Session != s.ID {
				continue
			}
			step := Step{Path: q.Path, Contender: c}
			if ahead := q.ahead(c); len(ahead) > 0 {
				step.Behind = ahead[len(ahead)-1]
			}
			s.Locks = append(s.Locks, step)
		}
	}
	return nil
}

// facts are the lines of the screen, with their names.
func (s *Session) facts() (rows [][]string) {
	add := func(name string, values ...string) {
		for i, v := range values {
			if i > 0 {
				name = ""
			}
			if v != "" {
				rows = append(rows, []string{name, v})
			}
		}
	}
	state := s.State
	if state == notTold { // a value for programs
		state = "unknown"
	}
	if s.GoneIn != "" {
		state += " (gone in <= " + s.GoneIn + ")"
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
	for _, l := range s.Locks {
		add("lock", l.lines()...)
	}
	add("servers", fmt.Sprintf("%d of %d answered", s.Answered, s.Members))
	return rows
}

// Table has a row for each fact.
func (s *Session) Table() render.Grid {
	return render.Grid{Header: []string{"FIELD", "VALUE"}, Rows: s.facts()}
}

// Text has a line for each fact.
func (s *Session) Text(w io.Writer) error {
	for _, row := range s.facts() {
		if _, err := fmt.Fprintf(w, "%-14s  %s\n", row[0], render.Safe(row[1])); err != nil {
			return err
		}
	}
	return nil
}
