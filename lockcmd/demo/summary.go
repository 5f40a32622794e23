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
	Agree         bool    `json:"agree"` // whether the counts agree with the servers' counters and the formula

	largest, bytes int
	audit          audit
	formula        string // text of the formula, or empty if none applies
	formulaFits    bool   // whether lockdemo's counts fit the formula
}

// result returns the cost of the scene. t is the measured traffic, and a compares that traffic
// with the servers' counters.
func (sc *scene) result(t traffic, a audit) *result {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.countNotified()
	slices.Sort(sc.handoffs)
	r := &result{Scheme: sc.scheme.name, N: sc.n, Requests: t.requests, Notifications: t.notifications,
		Vain: max(0, t.notifications-sc.usefulWakeups), Refused: t.refused, Overtakes: sc.overtakes,
		P50: quantile(sc.handoffs, 50), P99: quantile(sc.handoffs, 99), Exclusion: !sc.exclusionBroken,
		largest: sc.maxNotified, bytes: t.bytes, audit: a, formulaFits: true}
	if f := sc.scheme.formula; f != nil && !sc.disrupted() && sc.readerCount() == 0 && !(f == leaseFormula && sc.holdsLong()) {
		r.formula, r.formulaFits = f.text, f.matches(sc.n, t)
	}
	r.Agree = a.agrees() && r.formulaFits
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

// witnessesText says whether the servers' counters and the formula agree with the counted
// requests.
func (r *result) witnessesText() string {
	s := r.audit.String()
	switch {
	case r.formula == "":
	case r.formulaFits:
		s += ", " + r.formula
	default:
		s += ", but NOT " + r.formula
	}
	return s
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
// or if the counts do not agree.
func (s *summary) verdict() error {
	var errs []error
	for _, r := range s.Results {
		if !r.Exclusion {
			errs = append(errs, fmt.Errorf("%s n=%d: mutual exclusion failed: two contenders held the lock at the same time", r.Scheme, r.N))
		}
		if !r.Agree {
			errs = append(errs, fmt.Errorf("%s n=%d: the counts of lockdemo differ: %d requests and %d notifications on the wire, but %s",
				r.Scheme, r.N, r.Requests, r.Notifications, r.witnessesText()))
		}
	}
	return errors.Join(errs...)
}

// Table returns one row for each scene.
func (s *summary) Table() render.Grid { return s.grid(s.Results) }

var columns = []string{"scheme", "n", "requests", "ratio", "per hand-off", "notified", "most", "vain", "refused", "overtakes",
	"p50 ms", "p99 ms", "kB", "witnesses"}

// grid returns one row for each of the given results. The ratio in a row compares its cost with
// that of the first result with the same number of contenders.
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
			"×" + formatNumber(float64(r.Requests)/float64(max(best[r.N], 1))), formatNumber(float64(r.Requests) / float64(r.N)),
			formatNumber(float64(r.Notifications) / float64(r.N+1)), fmt.Sprint(r.largest), vain, fmt.Sprint(r.Refused),
			fmt.Sprint(r.Overtakes), fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.1f", r.P99),
			formatNumber(float64(r.bytes) / 1000), r.witnessesText()})
	}
	return g
}

// formatNumber formats x with at most one decimal place, or none if x is 100 or more.
func formatNumber(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
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
	largest := slices.DeleteFunc(slices.Clone(s.Results), func(r *result) bool { return r.N < most })
	fmt.Fprintf(&b, "The lock passes through %d contenders, all of them queued:\n\n", most)
	const perHandoff, mostNotified, refused, overtakes, p99, kB, witnesses = 4, 6, 8, 9, 11, 12, 13
	g := s.grid(largest)
	for i, row := range g.Rows { // the column n is the same in all rows
		g.Rows[i] = slices.Delete(row, 1, 2)
	}
	g.Header = slices.Delete(slices.Clone(g.Header), 1, 2)
	g = g.Fit(width, render.Step{Column: kB - 1}, render.Step{Column: mostNotified - 1}, render.Step{Column: perHandoff - 1},
		render.Step{Column: witnesses - 1, Width: 9}, render.Step{Column: p99 - 1}, render.Step{Column: overtakes - 1},
		render.Step{Column: refused - 1}, render.Step{Column: witnesses - 1})
	writeAligned(&b, g)
	if growth := s.growthChart(width); growth != "" {
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
	case slices.ContainsFunc(s.Results, func(r *result) bool { return !r.audit.reported }):
		return held + "The counts on the wire match the formulas. The servers do\nnot report counters."
	}
	return held + "The counts on the wire, the servers' counters and the\nformulas agree."
}

// writeAligned writes a table as text. It aligns the first and the last column to the left, and
// the other columns, which contain numbers, to the right.
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
