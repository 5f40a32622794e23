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

// Stats contains statistics about the queue of one lock over a period of observation.
type Stats struct {
	Path      string  `json:"path"`
	Seconds   float64 `json:"seconds"`   // duration of the observation
	HandOvers int     `json:"handOvers"` // number of times that a waiter acquired the lock
	Releases  int     `json:"releases"`
	Hold      Spread  `json:"hold"` // hold times of the holders that zksh saw acquire the lock
	Wait      Spread  `json:"wait"`
	// Notified contains the number of notifications that the servers have sent since the
	// observation began, to all of their clients. It is nil if the servers do not report this
	// number.
	Notified *Notified `json:"notified,omitempty"`
	NotTold  string    `json:"notTold,omitempty"` // reason why Notified is nil; empty otherwise
}

// A Spread summarizes a set of durations: their number, median and 99th percentile.
type Spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

// Notified contains the numbers of watchers that the servers notified of an event.
type Notified struct {
	Deleted    int64   `json:"deleted"`  // watchers of a deleted znode, usually waiters
	Children   int64   `json:"children"` // watchers of changed children; many per release mean a herd effect
	PerRelease float64 `json:"perRelease"`
}

// A counter collects the statistics of one queue while zksh observes it.
type counter struct {
	path        string
	started     time.Time
	came, got   map[string]time.Time // when a contender arrived and acquired the lock, by znode
	holds, wait []time.Duration
	handOvers   int
	releases    int
	before      map[string]int64 // the servers' counters at the beginning of the observation, or nil if unknown
	why         string           // reason why before is unknown; empty if it is known
}

// Names of counters in the output of the four-letter command mntr.
const (
	deletionCounter = "zk_sum_node_deleted_watch_count"
	childrenCounter = "zk_sum_node_children_watch_count"
)

// newCounter returns a counter for the queue at path. It reads the servers' counters, so that
// stats can later return their increase.
func newCounter(ctx context.Context, e Ensemble, path string) *counter {
	c := &counter{path: path, started: time.Now(), came: map[string]time.Time{}, got: map[string]time.Time{}}
	c.before, c.why = cluster.SumCounters(ctx, e, deletionCounter, childrenCounter)
	return c
}

// add counts changes of the queue that zksh saw at the given time.
func (c *counter) add(changes []Change, at time.Time) {
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

// stats returns the statistics from the beginning of the observation until now.
func (c *counter) stats(ctx context.Context, e Ensemble) *Stats {
	s := &Stats{Path: c.path, Seconds: time.Since(c.started).Seconds(), HandOvers: c.handOvers, Releases: c.releases,
		Hold: newSpread(c.holds), Wait: newSpread(c.wait), NotTold: c.why}
	if c.why != "" {
		return s
	}
	now, why := cluster.SumCounters(ctx, e, deletionCounter, childrenCounter)
	if why != "" {
		s.NotTold = why
		return s
	}
	s.Notified = &Notified{Deleted: now[deletionCounter] - c.before[deletionCounter], Children: now[childrenCounter] - c.before[childrenCounter]}
	s.Notified.PerRelease = float64(s.Notified.Deleted) / float64(max(c.releases, 1))
	return s
}

// newSpread returns the number, median and 99th percentile of times.
func newSpread(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(percent int) float64 {
		return float64(sorted[(len(sorted)*percent+99)/100-1].Microseconds()) / 1000
	}
	return Spread{len(sorted), at(50), at(99)}
}

// String returns the percentiles as text, such as "p50 1ms, p99 12ms".
func (s Spread) String() string {
	if s.Count == 0 {
		return "none seen"
	}
	return fmt.Sprintf("p50 %s, p99 %s", s.words(s.P50), s.words(s.P99))
}

func (Spread) words(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(100 * time.Microsecond).String()
}

// Text implements render.Value. It writes one statistic per line.
func (s *Stats) Text(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(s.lines(), "\n")+"\n")
	return err
}

// Table returns a table with one row per statistic.
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
		fmt.Sprintf("hand-overs: %d, releases: %d, in %s", s.HandOvers, s.Releases, formatAge(time.Duration(s.Seconds*float64(time.Second)))),
		"held: " + s.Hold.String(),
		"waited: " + s.Wait.String(),
	}
	if n := s.Notified; n != nil {
		return append(lines, fmt.Sprintf("watchers notified: %d of deletions (%.1f per release), %d of changed children", n.Deleted, n.PerRelease, n.Children))
	}
	return append(lines, "watchers notified: unknown: "+cmp.Or(s.NotTold, "no server was asked"))
}
