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

// result is what handing the lock through all contenders of a scene has cost.
type result struct {
	Scheme        string  `json:"scheme"`
	N             int     `json:"n"`
	Requests      int     `json:"requests"`
	Notifications int     `json:"notifications"`
	Vain          int     `json:"vain"` // notifications that led to no lock
	Refused       int     `json:"refused"`
	Overtakes     int     `json:"overtakes"`
	P50           float64 `json:"handoff_p50_ms"`
	P99           float64 `json:"handoff_p99_ms"`
	Exclusion     bool    `json:"exclusion"`
	Agree         bool    `json:"agree"` // the witnesses do

	largest, bytes int
	audit          audit
	formula        string // what it says; empty: nothing
	fits           bool   // the counts do
}

// result is what the referee and the wires have counted.
func (sc *scene) result(t traffic, a audit) *result {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.countNotified()
	slices.Sort(sc.handoffs)
	r := &result{Scheme: sc.scheme.name, N: sc.n, Requests: t.requests, Notifications: t.notifications,
		Vain: max(0, t.notifications-sc.useful), Refused: t.refused, Overtakes: sc.overtook,
		P50: quantile(sc.handoffs, 50), P99: quantile(sc.handoffs, 99), Exclusion: !sc.broken,
		largest: sc.largest, bytes: t.bytes, audit: a, fits: true}
	if f := sc.scheme.formula; f != nil && !sc.disrupted() && sc.readerCount() == 0 && !(f == leased && sc.holdsLong()) {
		r.formula, r.fits = f.text, f.holds(sc.n, t)
	}
	r.Agree = a.agrees() && r.fits
	return r
}

// disrupted reports whether somebody has gone before its time: no formula counts that.
func (sc *scene) disrupted() bool {
	return slices.ContainsFunc(sc.cast, func(c *contender) bool { return c.state != left })
}

// holdsLong reports whether a lease has to be proven anew while the lock is held.
func (sc *scene) holdsLong() bool { return sc.step != nil || sc.hold > sc.timeout/8 }

// quantile is in milliseconds.
func quantile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	d := sorted[(len(sorted)*percent+99)/100-1]
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// witnesses is what the three say.
func (r *result) witnesses() string {
	s := r.audit.String()
	switch {
	case r.formula == "":
	case r.fits:
		s += ", " + r.formula
	default:
		s += ", but NOT " + r.formula
	}
	return s
}

// summary is what the schemes have cost, the best first.
type summary struct {
	Results []*result `json:"summary"`
}

// sort puts the largest scenes first, and of those of one size the cheapest.
func (s *summary) sort() {
	slices.SortStableFunc(s.Results, func(a, b *result) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Requests, b.Requests), cmp.Compare(a.P50, b.P50))
	})
}

// verdict is nil if the lock was exclusive all the time, and the witnesses agree.
func (s *summary) verdict() error {
	var errs []error
	for _, r := range s.Results {
		if !r.Exclusion {
			errs = append(errs, fmt.Errorf("%s n=%d: mutual exclusion failed: two contenders held the lock at the same time", r.Scheme, r.N))
		}
		if !r.Agree {
			errs = append(errs, fmt.Errorf("%s n=%d: the counts of lockdemo differ: %d requests and %d notifications on the wire, but %s",
				r.Scheme, r.N, r.Requests, r.Notifications, r.witnesses()))
		}
	}
	return errors.Join(errs...)
}

// Table has a row for each scene.
func (s *summary) Table() render.Grid { return s.grid(s.Results) }

var columns = []string{"scheme", "n", "requests", "ratio", "per hand-off", "notified", "most", "vain", "refused", "overtakes",
	"p50 ms", "p99 ms", "kB", "witnesses"}

// grid is a table of scenes of one size, the first of which is what the others are
// compared with.
func (s *summary) grid(results []*result) render.Grid {
	g := render.Grid{Header: columns}
	best := map[int]int{}
	for _, r := range results {
		if best[r.N] == 0 {
			best[r.N] = r.Requests
		}
		vain := "-"
		if r.Notifications > 0 {
			vain = fmt.Sprintf("%d %%", 100*r.Vain/r.Notifications)
		}
		g.Rows = append(g.Rows, []string{r.Scheme, fmt.Sprint(r.N), fmt.Sprint(r.Requests),
			"×" + short(float64(r.Requests)/float64(max(best[r.N], 1))), short(float64(r.Requests) / float64(r.N)),
			short(float64(r.Notifications) / float64(r.N+1)), fmt.Sprint(r.largest), vain, fmt.Sprint(r.Refused),
			fmt.Sprint(r.Overtakes), fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.1f", r.P99),
			short(float64(r.bytes) / 1000), r.witnesses()})
	}
	return g
}

// short is a number with one digit behind the point, unless it is large.
func short(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

// Text is the table of the largest scenes, how the cost grows, and the verdict.
func (s *summary) Text(w io.Writer) error { return s.FitText(w, 0) }

// FitText is part of render.Fitter.
func (s *summary) FitText(w io.Writer, width int) error {
	if len(s.Results) == 0 {
		return nil
	}
	var b strings.Builder
	most := s.Results[0].N
	largest := slices.DeleteFunc(slices.Clone(s.Results), func(r *result) bool { return r.N < most })
	fmt.Fprintf(&b, "The lock passes through %d contenders, all of them queued:\n\n", most)
	const perHandoff, mostNotified, refused, overtakes, p99, kB, witnesses = 4, 6, 8, 9, 11, 12, 13
	g := s.grid(largest)
	for i, row := range g.Rows { // one size, so a column less
		g.Rows[i] = slices.Delete(row, 1, 2)
	}
	g.Header = slices.Delete(slices.Clone(g.Header), 1, 2)
	g = g.Fit(width, render.Step{Column: kB - 1}, render.Step{Column: mostNotified - 1}, render.Step{Column: perHandoff - 1},
		render.Step{Column: witnesses - 1, Width: 9}, render.Step{Column: p99 - 1}, render.Step{Column: overtakes - 1},
		render.Step{Column: refused - 1}, render.Step{Column: witnesses - 1})
	writeAligned(&b, g)
	if growth := s.growth(width); growth != "" {
		b.WriteString("\nRequests by number of contenders:\n\n" + growth)
	}
	b.WriteString("\n" + s.conclusion() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *summary) conclusion() string {
	if s.verdict() != nil {
		return "The scenes do NOT agree with the prediction: see the error."
	}
	const held = "In every scene, the lock was exclusive.\n"
	switch {
	case slices.ContainsFunc(s.Results, func(r *result) bool { return r.audit.disturbed }):
		return held + "The counts on the wire match the formulas. The servers'\ncounters differ, because other clients used the servers\nat the same time."
	case slices.ContainsFunc(s.Results, func(r *result) bool { return !r.audit.told }):
		return held + "The counts on the wire match the formulas. The servers do\nnot report counters."
	}
	return held + "The counts on the wire, the servers' counters and the\nformulas agree."
}

// writeAligned writes a grid whose first and last columns are words, and the others numbers.
func writeAligned(b *strings.Builder, g render.Grid) {
	widths := g.Widths()
	for _, row := range append([][]string{g.Header}, g.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-render.Width(cell))
			if i == 0 || g.Header[i] == "witnesses" {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// growth draws the requests of each scheme as bars, for one size after another. It
// is empty if there is one size only.
func (s *summary) growth(width int) string {
	var sizes []int
	var names []string
	requests, most := map[string]int{}, 1
	at := func(name string, n int) string { return fmt.Sprintf("%s %d", name, n) }
	for _, r := range s.Results { // the largest first
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
		trim(&b)
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
	trim(&b)
	return b.String()
}

// trim ends a line without blanks.
func trim(b *strings.Builder) {
	text := strings.TrimRight(b.String(), " ")
	b.Reset()
	b.WriteString(text + "\n")
}

// bar is a share of so many columns, in eighths of one; what is not zero shows.
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
