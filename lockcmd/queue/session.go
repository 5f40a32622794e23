package queue

import (
	"context"
	"fmt"
	"io"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
)

// A Session contains information about one ZooKeeper session, and the locks of its client.
type Session struct {
	*cluster.Session
	Locks []Step `json:"locks"` // locks that the session holds or waits for
	*cluster.Coverage
}

// LookSession finds a session by its id or, if client is not empty, by the address of its client.
// It then reads the queues in which the session has a znode.
func LookSession(ctx context.Context, e TreeEnsemble, id int64, client string) (*Session, error) {
	found, coverage, err := cluster.FindSession(ctx, e, id, client)
	if err != nil {
		return nil, err
	}
	s := &Session{found, []Step{}, coverage}
	folders := map[string]bool{}
	var list []string
	for _, p := range s.Ephemerals {
		list = append(list, e.ServerPath(p))
	}
	addQueueDirs(folders, e, "/", list)
	queues, err := readAll(ctx, e, queueDirs(folders))
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		q.setAges(q.now(0))
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
	return s, nil
}

// Table returns one row for each fact about the session.
func (s *Session) Table() render.Grid {
	rows := s.Facts()
	for _, l := range s.Locks {
		name := "lock"
		for _, line := range l.lines() {
			rows = append(rows, []string{name, line})
			name = ""
		}
	}
	rows = append(rows, []string{"servers", fmt.Sprintf("%d of %d answered", s.Answered, s.Members)})
	return render.Grid{Header: []string{"FIELD", "VALUE"}, Rows: rows}
}

// Text implements render.Value. It writes one line for each fact about the session.
func (s *Session) Text(w io.Writer) error {
	for _, row := range s.Table().Rows {
		if _, err := fmt.Fprintf(w, "%-14s  %s\n", row[0], render.Safe(row[1])); err != nil {
			return err
		}
	}
	return nil
}
