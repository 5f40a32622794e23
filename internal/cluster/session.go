package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// Session describes one session, as the servers report it.
type Session struct {
	ID         string   `json:"session"`
	State      string   `json:"state"`            // "connected", "no connection" or "unknown"
	GoneIn     string   `json:"goneIn,omitempty"` // time until a session without a connection expires
	Client     string   `json:"client,omitempty"` // address of the client
	Server     string   `json:"server,omitempty"` // server to which the client is connected
	Since      string   `json:"since,omitempty"`  // start of the connection, in RFC 3339 and UTC
	Timeout    string   `json:"timeout,omitempty"`
	Ephemerals []string `json:"ephemerals"`
	NotTold    []string `json:"notTold,omitempty"` // missing facts, each with the reason and often a remedy
}

// FindSession finds a session by its ID. It returns an error if the session is known not to exist.
func FindSession(ctx context.Context, e Ensemble, id int64) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, serversLimit)
	defer cancel()
	addrs, members, configured := findMembers(ctx, e)
	s := &Session{ID: render.Hex(id), Ephemerals: []string{}}
	if !configured {
		s.missing("other servers", membersNotReported)
	}
	lists, problems := askEach(ctx, e, addrs, "cons")
	s.missing("address, server", problems...)
	all := len(s.NotTold) == 0 && len(addrs) >= len(members)
	s.fillFromCons(addrs, lists, id)
	dumps, problems := askEach(ctx, e, addrs, "dump")
	known, parsed := s.fillFromDumps(e, dumps, id)
	if !parsed {
		problems = append(problems, "no server listed them")
	}
	s.missing("ephemerals", problems...)
	switch {
	case s.Client != "":
		s.State, s.GoneIn = "connected", ""
	case all && known:
		s.State = NoConnection
	case all && parsed:
		return nil, fmt.Errorf("there is no session %s", s.ID)
	default:
		s.State, s.GoneIn = "unknown", ""
	}
	return s, nil
}

// missing records that a fact is unknown, and the first of the reasons. Without a reason, the fact is
// known.
func (s *Session) missing(fact string, reasons ...string) {
	if len(reasons) > 0 {
		s.NotTold = append(s.NotTold, fact+": "+reasons[0])
	}
}

// fillFromCons fills in the connection of the session from the servers' replies to the four-letter
// command cons. The old server of a session that has moved may still list it, so the newest
// connection counts.
func (s *Session) fillFromCons(addrs, lists []string, id int64) {
	var newest time.Time
	for i, list := range lists {
		for _, c := range parseCons(list).conns {
			if c.session != id || c.since.Before(newest) {
				continue
			}
			newest, s.Client, s.Server = c.since, c.addr, addrs[i]
			if !c.since.IsZero() {
				s.Since = render.Time(c.since)
			}
			if c.timeout > 0 {
				s.Timeout = c.timeout.String()
			}
		}
	}
}

// fillFromDumps fills in the session's ephemeral znodes and expiry from the servers' replies to the
// four-letter command dump. Only the leader reports the expiry. known reports whether the session
// exists, and parsed whether at least one reply could be parsed.
func (s *Session) fillFromDumps(e Ensemble, dumps []string, id int64) (known, parsed bool) {
	for _, text := range dumps {
		znodes, err := ephemerals(text)
		if err != nil {
			continue
		}
		paths, owner := znodes[id]
		known, parsed = known || owner, true
		for _, p := range paths {
			s.Ephemerals = append(s.Ephemerals, e.ClientPath(p))
		}
		var end time.Time // when the sessions in the next lines expire; zero if the format is unknown
		sessions, _, _ := strings.Cut(text, "ephemeral nodes dump:")
		for line := range strings.Lines(sessions) {
			if _, date, ok := strings.Cut(strings.TrimSpace(line), " expire at "); ok {
				end, _ = time.Parse(javaDate, strings.TrimSuffix(date, ":"))
			} else if strings.TrimSpace(line) == s.ID {
				known = true
				if left := time.Until(end); left > 0 && left < time.Hour {
					s.GoneIn = left.Round(time.Second).String()
				}
			}
		}
	}
	slices.Sort(s.Ephemerals)
	s.Ephemerals = slices.Compact(s.Ephemerals)
	return known, parsed
}

// javaDate is the format of java.util.Date, in which dump prints the expiry of a session.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// Table returns one row for each known fact about the session: its name and its value.
func (s *Session) Table() render.Grid {
	state := s.State
	if s.GoneIn != "" {
		state += " (gone in <= " + s.GoneIn + ")"
	}
	rows := [][]string{{"session", s.ID}, {"state", state}, {"client", s.Client}, {"server", s.Server},
		{"since", s.Since}, {"timeout", s.Timeout}}
	name := "ephemerals"
	for _, p := range s.Ephemerals {
		rows, name = append(rows, []string{name, p}), ""
	}
	rows = slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })
	return render.Grid{Header: []string{"FIELD", "VALUE"}, Rows: rows}
}

// Text implements render.Value. It writes one line for each fact about the session.
func (s *Session) Text(w io.Writer) error {
	for _, row := range s.Table().Rows {
		if _, err := fmt.Fprintf(w, "%-10s  %s\n", row[0], render.Safe(row[1])); err != nil {
			return err
		}
	}
	return nil
}
