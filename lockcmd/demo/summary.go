package demo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// A result contains the cost of passing the lock through all contenders of a scene.
type result struct {
	Scheme        string  `json:"scheme"`
	N             int     `json:"n"`
	Requests      int     `json:"requests"`
	Notifications int     `json:"notifications"`
	Vain          int     `json:"vain"` // notifications that woke a contender in vain
	Refused       int     `json:"refused"`
	Overtakes     int     `json:"overtakes"`
	P50           float64 `json:"handoff_p50_ms"`
	P99           float64 `json:"handoff_p99_ms"`
	Exclusion     bool    `json:"exclusion"`
	Agree         bool    `json:"agree"` // whether the counts are those that the formula predicts

	formula formula // prediction of the counts, or nil if there is none
}

// result returns the cost of the scene. t is the measured traffic.
func (sc *scene) result(t traffic) *result {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	slices.Sort(sc.handoffs)
	r := &result{Scheme: sc.scheme.name, N: sc.n, Requests: t.requests, Notifications: t.notifications,
		Vain: max(0, t.notifications-sc.usefulWakeups), Refused: t.refused, Overtakes: sc.overtakes,
		P50: quantile(sc.handoffs, 50), P99: quantile(sc.handoffs, 99), Exclusion: !sc.exclusionBroken, Agree: true}
	leaseRenewed := sc.scheme.leased && sc.holdsLong()
	if sc.scheme.formula != nil && !sc.disrupted() && sc.readerCount() == 0 && !leaseRenewed {
		r.formula = sc.scheme.formula
		requests, notifications := r.formula(r.N)
		r.Agree = requests.contains(r.Requests) && notifications.contains(r.Notifications)
	}
	return r
}

// disrupted reports whether a contender ended without releasing the lock normally, so that no
// formula applies.
func (sc *scene) disrupted() bool {
	return slices.ContainsFunc(sc.contenders, func(c *contender) bool { return c.state != left })
}

// holdsLong reports whether contenders may hold the lock so long that they must renew its lease.
func (sc *scene) holdsLong() bool { return sc.step != nil || sc.hold > sc.timeout/8 }

// quantile returns the given percentile of the sorted durations, in milliseconds.
func quantile(times []time.Duration, percent int) float64 {
	if len(times) == 0 {
		return 0
	}
	d := times[(len(times)*percent+99)/100-1]
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// expected returns the number of requests that the formula predicts, as text.
func (r *result) expected() string {
	if r.formula == nil {
		return "varies"
	}
	requests, _ := r.formula(r.N)
	return requests.String()
}

// A summary contains the results of all scenes.
type summary struct {
	Results []*result `json:"summary"`
}

// sort sorts the results by descending number of contenders. Results with the same number are in
// the order of increasing cost.
func (s *summary) sort() {
	slices.SortStableFunc(s.Results, func(a, b *result) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Requests, b.Requests), cmp.Compare(a.P50, b.P50))
	})
}

// verdict returns an error if two contenders that exclude each other ever held the lock together,
// or if the counts are not those that a formula predicts.
func (s *summary) verdict() error {
	var errs []error
	for _, r := range s.Results {
		if !r.Exclusion {
			errs = append(errs, fmt.Errorf("%s n=%d: mutual exclusion failed: two contenders held the lock at the same time",
				r.Scheme, r.N))
		}
		if !r.Agree {
			requests, notifications := r.formula(r.N)
			errs = append(errs, fmt.Errorf("%s n=%d: the counts differ: %d requests and %d notifications on the wire,"+
				" but its formula predicts %s and %s", r.Scheme, r.N, r.Requests, r.Notifications, requests, notifications))
		}
	}
	return errors.Join(errs...)
}

var columns = []string{"recipe", "n", "requests", "expected", "woken", "in vain", "rejected", "hand-over"}

// Table returns one row for each scene.
func (s *summary) Table() render.Grid {
	g := render.Grid{Header: columns}
	for _, r := range s.Results {
		g.Rows = append(g.Rows, []string{r.Scheme, fmt.Sprint(r.N), fmt.Sprint(r.Requests), r.expected(),
			fmt.Sprint(r.Notifications), fmt.Sprint(r.Vain), fmt.Sprint(r.Refused), fmt.Sprintf("%.1f ms", r.P50)})
	}
	return g
}

// Text implements render.Value. It writes a table of the largest scenes, a chart of the growing
// cost, and the conclusion.
func (s *summary) Text(w io.Writer) error { return s.FitText(w, 0) }

// FitText implements render.Fitter. It writes the same text as Text, shortened to fit width.
func (s *summary) FitText(w io.Writer, width int) error {
	if len(s.Results) == 0 {
		return nil
	}
	var b strings.Builder
	most := s.Results[0].N
	largest := &summary{slices.DeleteFunc(slices.Clone(s.Results), func(r *result) bool { return r.N < most })}
	fmt.Fprintf(&b, "The lock passes through %d contenders, all of them queued:\n\n", most)
	const n, rejected, handOver = 1, 6, 7
	g := largest.Table()
	for i, row := range g.Rows { // the column n is the same in all rows
		g.Rows[i] = slices.Delete(row, n, n+1)
	}
	g.Header = slices.Delete(slices.Clone(g.Header), n, n+1)
	writeAligned(&b, g.Fit(width, render.Step{Column: rejected - 1}, render.Step{Column: handOver - 1}))
	if growth := s.growthChart(width); growth != "" {
		b.WriteString("\nRequests by number of contenders:\n\n" + growth)
	}
	b.WriteString("\n" + s.conclusion() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *summary) conclusion() string {
	switch {
	case s.verdict() != nil:
		return "The scenes do NOT agree with the prediction: see the error."
	case slices.ContainsFunc(s.Results, func(r *result) bool { return r.formula != nil }):
		return "In every scene, the lock was exclusive.\nThe counted requests and the expected ones agree."
	}
	return "In every scene, the lock was exclusive."
}

// writeAligned writes a table as text. It aligns the first column to the left, and the other
// columns to the right.
func writeAligned(b *strings.Builder, g render.Grid) {
	widths := g.Widths()
	for _, row := range append([][]string{g.Header}, g.Rows...) {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-render.Width(cell))
			if i == 0 {
				b.WriteString(cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteString("\n")
	}
}

// growthChart draws a bar chart of the number of requests, with a row for each scheme and a
// column for each number of contenders. If all scenes have the same number of contenders, it
// returns an empty string.
func (s *summary) growthChart(width int) string {
	var sizes []int
	var names []string
	requests, most := map[string]int{}, 1
	at := func(name string, n int) string { return fmt.Sprintf("%s %d", name, n) }
	for _, r := range s.Results { // the results are sorted by N, the largest first
		if !slices.Contains(sizes, r.N) {
			sizes = append(sizes, r.N)
		}
		if !slices.Contains(names, r.Scheme) {
			names = append(names, r.Scheme)
		}
		requests[at(r.Scheme, r.N)] = r.Requests
		most = max(most, r.Requests)
	}
	if len(sizes) < 2 {
		return ""
	}
	slices.Reverse(sizes)
	const label, count, gap = 13, 7, 2
	if width <= 0 {
		width = 80
	}
	full := max(2, (width-label)/len(sizes)-count-gap)
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", label, "")
	for _, n := range sizes {
		fmt.Fprintf(&b, "%-*s", full+count+gap, fmt.Sprintf("n=%d", n))
	}
	for _, name := range names {
		endLine(&b)
		fmt.Fprintf(&b, "%-*s", label, name)
		for _, n := range sizes {
			got, played := requests[at(name, n)]
			cell := ""
			if played {
				cell = fmt.Sprintf("%s %d", bar(float64(got)/float64(most), full), got)
			}
			b.WriteString(cell + strings.Repeat(" ", max(0, full+count+gap-render.Width(cell))))
		}
	}
	endLine(&b)
	return b.String()
}

// endLine removes trailing spaces from the last line in b, and ends that line.
func endLine(b *strings.Builder) {
	text := strings.TrimRight(b.String(), " ")
	b.Reset()
	b.WriteString(text + "\n")
}

// bar draws a horizontal bar that fills the given share of columns, rounded to an eighth of a
// column. Any share above zero is visible.
func bar(share float64, columns int) string {
	const eighths = " ▏▎▍▌▋▊▉"
	n := int(share*float64(columns)*8 + 0.5)
	if n == 0 && share > 0 {
		n = 1
	}
	text := strings.Repeat("█", n/8)
	if n%8 > 0 {
		text += string([]rune(eighths)[n%8])
	}
	return text
}
