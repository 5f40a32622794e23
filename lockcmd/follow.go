package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// follower shows a queue as it changes.
type follower struct {
	env     *commands.Env
	live    commands.Region // the queue on a terminal
	path    string
	wake    chan struct{} // receives a value after a change
	reader  reader
	dirs    []string // that are watched
	clients *clients // as they were told last
	asked   time.Time
	last    *queue // as it was shown last
}

// refresh is how often a terminal is brought up to date, and how often at most the
// servers are asked for their connections.
const refresh = time.Second

// followQueue shows a queue again and again, through reconnects and sessions,
// until ctx ends. The user sees nothing of its watches.
func followQueue(ctx context.Context, env *commands.Env, path string) error {
	f := &follower{env: env, live: env.Screen.Region(commands.Answers), path: path, wake: make(chan struct{}, 1), clients: &clients{}}
	for {
		p, err := env.Session.Pin(ctx)
		if err == nil {
			err = f.follow(ctx, p)
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), f.live.Close(true))
		case !errors.Is(err, zkconn.SessionExpired):
			return err
		}
	}
}

// follow does so in one session.
func (f *follower) follow(ctx context.Context, p *zkconn.Pinned) error {
	f.dirs = nil
	f.reader = reader{s: f.env.Session, known: map[string]*node{}}
	f.reader.list = func(ctx context.Context, path string) ([]string, error) { return f.watch(ctx, p, path) }
	defer func() {
		for _, dir := range f.dirs {
			p.Unwatch(dir, f.wake)
		}
	}()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		err := f.update(ctx)
		if errors.Is(err, zkconn.ConnectionLoss) {
			if err = p.Await(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := f.rest(ctx, p, tick.C); err != nil {
			return err
		}
	}
}

// rest waits for the next change, or for the next look where there is a terminal:
// the ages go on there, and a holder's data may have changed.
func (f *follower) rest(ctx context.Context, p *zkconn.Pinned, tick <-chan time.Time) error {
	for {
		select {
		case <-f.wake:
			return nil
		case <-tick:
			columns, _ := f.live.Size()
			if columns > 0 && p.Connected() {
				return nil
			}
			if err := f.draw(false); err != nil {
				return err
			}
		case <-p.Ended():
			return &zkconn.Error{Code: zkconn.SessionExpired, Path: f.path}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch lists a path and has its next change, or its creation, wake us.
func (f *follower) watch(ctx context.Context, p *zkconn.Pinned, path string) ([]string, error) {
	if !slices.Contains(f.dirs, path) {
		f.dirs = append(f.dirs, path)
	}
	for {
		names, err := p.WatchChildren(ctx, path, f.wake)
		if !errors.Is(err, zkconn.NoNode) {
			return names, err
		}
		if _, err := p.Exists(ctx, path, f.wake); err != nil {
			return nil, err
		}
	}
}

// update reads the queue and shows what is new.
func (f *follower) update(ctx context.Context) error {
	c, err := f.reader.read(ctx, f.path)
	if err != nil {
		return err
	}
	q := newQueue(f.path, c)
	holding := q.holding()
	maps.DeleteFunc(f.reader.known, func(_ string, n *node) bool { return holding[n.name] }) // to be read again
	q.addClients(f.connections(ctx, q))
	before := f.last
	f.last = q
	if columns, _ := f.live.Size(); columns > 0 {
		return f.draw(true)
	}
	for _, ch := range changes(before, q, time.Now()) {
		if err := f.env.Screen.Print(ch); err != nil {
			return err
		}
	}
	return nil
}

// connections asks the servers if there is somebody whom they have not told of.
func (f *follower) connections(ctx context.Context, q *queue) *clients {
	stranger := slices.ContainsFunc(q.Contenders, func(c *contender) bool {
		return c.Session != "" && f.clients.addrs[c.stat.EphemeralOwner] == ""
	})
	if stranger && time.Since(f.asked) > refresh {
		f.clients, f.asked = findClients(ctx, f.env.Session, adminPort), time.Now()
		return f.clients
	}
	old := *f.clients
	old.all = old.all && !stranger // who has come since is not in it
	return &old
}

// draw shows the queue on a terminal, as it is now; elsewhere it does nothing.
func (f *follower) draw(connected bool) error {
	columns, rows := f.live.Size()
	if columns == 0 || f.last == nil {
		return nil
	}
	q := f.last
	q.columns = columns
	q.setAges(f.clients.now(q))
	lines := []string{q.title()}
	if !connected {
		lines = append(lines, "the connection is lost: this is how it was")
	}
	lines = append(lines, q.remarks()...)
	if len(q.Contenders) > 0 {
		lines = append(lines, q.lines()...)
	}
	if most := max(rows-1, 2); len(lines) > most {
		lines = append(lines[:most-1], fmt.Sprintf("… and %d more", len(lines)-most+1))
	}
	return f.live.Draw(lines...)
}

// title says how things are in one line.
func (q *queue) title() string {
	holding := 0
	for _, c := range q.Contenders {
		if c.State == holds {
			holding++
		}
	}
	if len(q.Contenders) == 0 {
		return q.Path + ": free"
	}
	return fmt.Sprintf("%s: %d hold, %d wait", q.Path, holding, len(q.Contenders)-holding)
}

// queueChange is one line of locks -f in a pipe.
type queueChange struct {
	Time  string `json:"time"` // RFC 3339 in UTC
	Event string `json:"event"`
	*contender
}

// Text is a line of words, the last but one of which may have blanks.
func (c queueChange) Text(w io.Writer) error {
	words := []string{c.Time, c.Event, c.word(), c.Session, c.Client, c.Who, strings.Join(c.Nodes, ",")}
	for i, word := range words {
		if word == "" {
			words[i] = "-"
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(words, "  "))
	return err
}

// changes is what happened between two readings: left, came, got the lock. At
// the start everybody's state is told. Who came and left in between is not seen.
func changes(before, now *queue, at time.Time) []queueChange {
	var list []queueChange
	add := func(event string, c *contender) {
		list = append(list, queueChange{at.UTC().Format(isoMillis), event, c})
	}
	was := map[string]*contender{}
	if before != nil {
		was = byNode(before)
		is := byNode(now)
		for _, c := range before.Contenders {
			if is[c.Nodes[0]] == nil {
				add("left", c)
			}
		}
	}
	for _, c := range now.Contenders {
		old := was[c.Nodes[0]]
		switch {
		case before == nil:
			add(c.State, c)
			continue
		case old == nil:
			add("came", c)
		}
		if c.State == holds && (old == nil || old.State != holds) {
			add("got", c)
		}
	}
	return list
}

// holding is the set of the holders' nodes.
func (q *queue) holding() map[string]bool {
	names := map[string]bool{}
	for _, c := range q.Contenders {
		for _, n := range c.Nodes {
			names[n] = c.State == holds
		}
	}
	return names
}

func byNode(q *queue) map[string]*contender {
	m := map[string]*contender{}
	for _, c := range q.Contenders {
		m[c.Nodes[0]] = c
	}
	return m
}
