package queue

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
)

// Stats is what a queue that is followed comes to.
type Stats struct {
	Path      string  `json:"path"`
	Seconds   float64 `json:"seconds"`   // how long it has been followed
	HandOvers int     `json:"handOvers"` // who had waited got the lock
	Releases  int     `json:"releases"`
	Hold      Spread  `json:"hold"` // of those whose beginning was seen
	Wait      Spread  `json:"wait"`
	// Notified is what the servers' counters went up by meanwhile, for whatever
	// reason, the watches of who follows included. Nil: they do not tell.
	Notified *Notified `json:"notified,omitempty"`
	NotTold  string    `json:"notTold,omitempty"` // why not
}

// Spread is how some times are spread, in milliseconds.
type Spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

// Notified counts watchers that were told of something.
type Notified struct {
	Deleted  int64   `json:"deleted"`  // of a deletion: who waits for the one before
	Children int64   `json:"children"` // of a change of children: a herd at the folder
	Release  float64 `json:"perRelease"`
}

// counting adds up what happens in a queue.
type counting struct {
	path        string
	begun       time.Time
	came, got   map[string]time.Time // by node
	holds, wait []time.Duration
	handOvers   int
	releases    int
	before      map[string]int64 // the servers' counters at the beginning
	why         string           // they do not tell
}

// The names of counters, of which mntr has the sums.
const (
	toldOfDeletion = "zk_sum_node_deleted_watch_count"
	toldOfChildren = "zk_sum_node_children_watch_count"
)

// newCounting begins to count.
func newCounting(ctx context.Context, e Ensemble, path string) *counting {
	c := &counting{path: path, begun: time.Now(), came: map[string]time.Time{}, got: map[string]time.Time{}}
	c.before, c.why = cluster.SumCounters(ctx, e, toldOfDeletion, toldOfChildren)
	return c
}

// add takes what happened.
func (c *counting) add(changes []Change, at time.Time) {
	for _, ch := range changes {
		node := ch.Nodes[0]
		switch ch.Event {
		case cameEvent:
			c.came[node] = at
		case gotEvent:
			if since, seen := c.came[node]; seen {
				c.wait = append(c.wait, at.Sub(since))
			}
			if since, seen := c.came[node]; !seen || since.Before(at) {
				c.handOvers++
			}
			c.got[node] = at
		case leftEvent:
			if since, seen := c.got[node]; seen {
				c.holds = append(c.holds, at.Sub(since))
			}
			if ch.State == holds {
				c.releases++
			}
			delete(c.came, node)
			delete(c.got, node)
		}
	}
}

// stats is what it comes to by now.
func (c *counting) stats(ctx context.Context, e Ensemble) *Stats {
	s := &Stats{Path: c.path, Seconds: time.Since(c.begun).Seconds(), HandOvers: c.handOvers, Releases: c.releases,
		Hold: spread(c.holds), Wait: spread(c.wait), NotTold: c.why}
	if c.why != "" {
		return s
	}
	now, why := cluster.SumCounters(ctx, e, toldOfDeletion, toldOfChildren)
	if why != "" {
		s.NotTold = why
		return s
	}
	s.Notified = &Notified{Deleted: now[toldOfDeletion] - c.before[toldOfDeletion], Children: now[toldOfChildren] - c.before[toldOfChildren]}
	s.Notified.Release = float64(s.Notified.Deleted) / float64(max(c.releases, 1))
	return s
}

// spread sorts times.
func spread(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(percent int) float64 {
		return float64(sorted[(len(sorted)*percent+99)/100-1].Microseconds()) / 1000
	}
	return Spread{len(sorted), at(50), at(99)}
}

// String is the figures in a line.
func (s Spread) String() string {
	if s.Count == 0 {
		return "none seen"
	}
	return fmt.Sprintf("p50 %s, p99 %s", s.words(s.P50), s.words(s.P99))
}

func (Spread) words(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(100 * time.Microsecond).String()
}

// Text has a line for each of the figures.
func (s *Stats) Text(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(s.lines(), "\n")+"\n")
	return err
}

// Table is the figures by name.
func (s *Stats) Table() render.Grid {
	g := render.Grid{Header: []string{"FIGURE", "VALUE"}}
	for _, l := range s.lines() {
		name, value, _ := strings.Cut(l, ": ")
		g.Rows = append(g.Rows, []string{name, value})
	}
	return g
}

func (s *Stats) lines() []string {
	lines := []string{
		fmt.Sprintf("hand-overs: %d, releases: %d, in %s", s.HandOvers, s.Releases, age(time.Duration(s.Seconds*float64(time.Second)))),
		"held: " + s.Hold.String(),
		"waited: " + s.Wait.String(),
	}
	if n := s.Notified; n != nil {
		return append(lines, fmt.Sprintf("watchers notified: %d of deletions (%.1f per release), %d of changed children", n.Deleted, n.Release, n.Children))
	}
	return append(lines, "watchers notified: unknown: "+cmp.Or(s.NotTold, "no server was asked"))
}
