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

// measure returns the cost of the scene so far. t is the traffic since the measurement began, and y
// what the events add up to.
func (sc *scene) measure(t traffic, y tally) *result {
	slices.Sort(y.handoffs)
	r := &result{Scheme: sc.scheme.name, N: sc.n, Requests: t.requests, Notifications: t.notifications,
		Vain: max(0, t.notifications-y.useful-y.awake), Refused: t.refused, Overtakes: y.overtakes,
		P50: quantile(y.handoffs, 50), P99: quantile(y.handoffs, 99), Exclusion: !y.broken, Agree: true}
	disrupted := y.left < len(sc.contenders) // a contender has ended without releasing the lock normally
	leaseRenewed := sc.scheme.leased && (sc.step != nil || sc.hold > sc.timeout/8)
	if sc.scheme.formula != nil && !disrupted && !sc.hasReaders() && !leaseRenewed {
		r.formula = sc.scheme.formula
		requests, notifications := r.formula(r.N)
		r.Agree = requests.contains(r.Requests) && notifications.contains(r.Notifications)
	}
	return r
}

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

// Table returns one row for each scene.
func (s *summary) Table() render.Grid {
	g := render.Grid{Header: []string{"recipe", "n", "requests", "expected", "woken", "in vain", "rejected", "hand-over"}}
	for _, r := range s.Results {
		g.Rows = append(g.Rows, []string{r.Scheme, fmt.Sprint(r.N), fmt.Sprint(r.Requests), r.expected(),
			fmt.Sprint(r.Notifications), fmt.Sprint(r.Vain), fmt.Sprint(r.Refused), fmt.Sprintf("%.1f ms", r.P50)})
	}
	return g
}

// Text implements render.Value. It writes a table of the largest scenes, a table of the
// growing number of requests, and the conclusion.
func (s *summary) Text(w io.Writer) error { return s.FitText(w, 0) }

// FitText implements render.Fitter. It writes the same text as Text, shortened to fit width.
func (s *summary) FitText(w io.Writer, width int) error {
	if len(s.Results) == 0 {
		return nil
	}
	var b strings.Builder
	most := s.Results[0].N
	fmt.Fprintf(&b, "The lock passes through %d contenders, all of them queued:\n\n", most)
	g := (&summary{slices.DeleteFunc(slices.Clone(s.Results), func(r *result) bool { return r.N < most })}).Table()
	for i, row := range g.Rows { // the column n is the same in all rows
		g.Rows[i] = slices.Delete(row, 1, 2)
	}
	g.Header = slices.Delete(g.Header, 1, 2)
	writeAligned(&b, g.Fit(width, render.Step{Column: 5}, render.Step{Column: 6}))
	if growth := s.growth(); len(growth.Header) > 2 {
		b.WriteString("\nRequests by number of contenders:\n\n")
		writeAligned(&b, growth)
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

// growth returns the number of requests, with a row for each scheme and a column for each number of
// contenders.
func (s *summary) growth() render.Grid {
	g := render.Grid{Header: []string{"recipe"}}
	rows := map[string]int{}
	for _, r := range slices.Backward(s.Results) { // the results are sorted by N, the largest first
		if size := fmt.Sprintf("n=%d", r.N); !slices.Contains(g.Header, size) {
			g.Header = append(g.Header, size)
		}
	}
	for _, r := range s.Results {
		row, known := rows[r.Scheme]
		if !known {
			row = len(g.Rows)
			rows[r.Scheme] = row
			g.Rows = append(g.Rows, append([]string{r.Scheme}, make([]string, len(g.Header)-1)...))
		}
		g.Rows[row][slices.Index(g.Header, fmt.Sprintf("n=%d", r.N))] = fmt.Sprint(r.Requests)
	}
	return g
}
