package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// A timeline is the history of one scene, with one lane for each contender except the starter.
type timeline struct {
	scene *scene
	lanes [][]laneEvent // by the number of the contender

	last     event         // the latest event; its scene is nil if there is none
	seen     map[int]bool  // indexes in styles of the states that have occurred
	vain     int           // number of wake-ups in vain since the measurement began
	holding  map[int]bool  // contenders that hold the lock
	together int           // maximum number of contenders that held the lock at the same time
	since    time.Duration // time at which the number of holders changed
	killed   event         // event of the contender that was killed; its scene is nil if there is none

	result *result       // nil until the scene is over
	length time.Duration // time of the last event, once the scene is over
}

// A laneEvent is an entry in a contender's lane: the beginning of a lasting state, or a single
// occurrence.
type laneEvent struct {
	at    time.Duration
	style int // index in styles
}

func newTimeline(sc *scene) *timeline {
	return &timeline{scene: sc, lanes: make([][]laneEvent, sc.n+1), seen: map[int]bool{}, holding: map[int]bool{}}
}

// add adds an event, which must not be earlier than those before.
func (b *timeline) add(e event) {
	style := styleIndex(b.drawnState(e))
	b.lanes[e.Contender] = append(b.lanes[e.Contender], laneEvent{e.at, style})
	b.last, b.seen[style] = e, true
	holders := len(b.holding)
	switch e.Event {
	case holds:
		b.holding[e.Contender] = true
		b.together = max(b.together, len(b.holding))
	case vain:
		b.vain++
	case releases:
		delete(b.holding, e.Contender)
		if e.Contender == 0 { // the measurement begins
			b.vain = 0
		}
	case killed:
		delete(b.holding, e.Contender)
		b.killed = e
	}
	if len(b.holding) != holders {
		b.since = e.at
	}
}

// now returns the time that the picture shows: the present or, once the scene is over, its end.
func (b *timeline) now() time.Duration {
	if b.result != nil {
		return b.length
	}
	return b.scene.elapsed()
}

// styles contains the symbols and descriptions of all states. If several states fall into one
// column of a lane, the one that comes last in this list is drawn. Each visible state has its own
// symbol.
var styles = []struct {
	is     state
	symbol string
	lasts  bool // whether the state lasts until the next lasting one
	legend string
	words  string
	color  render.Style
}{
	{"", " ", true, "", "", render.Plain},
	{left, " ", true, "", "is done", render.Plain},
	{releases, " ", true, "", "releases the lock", render.Plain},
	{waits, "·", true, "waits", "waits", render.Dim},
	{woken, "*", false, "woken", "is woken: is it first?", render.Blue},
	{vain, "!", false, "in vain", "was woken needlessly and waits again", render.Red},
	{refused, "x", false, "rejected", "tries to create the znode and is rejected", render.Yellow},
	{holds, "█", true, "holds", "holds the lock", render.Green},
	{reads, "▒", true, "readers hold", "holds the lock together with other readers", render.Cyan},
	{killed, "†", true, "killed", "is killed: its znode stays until the session times out", render.Strong},
}

// reads is the state holds of a reader. It exists only in pictures.
const reads state = "reads"

// styleIndex returns the index of the given state in styles.
func styleIndex(s state) int {
	for i, l := range styles {
		if l.is == s {
			return i
		}
	}
	return 0
}

// drawnState returns the state as which an event is drawn.
func (b *timeline) drawnState(e event) state {
	if e.Event == holds && b.isReader(e.Contender) {
		return reads
	}
	return e.Event
}

func (b *timeline) isReader(contender int) bool {
	return contender < len(b.scene.contenders) && b.scene.contenders[contender].reader
}

// drawLane returns a contender's lane as a line of at most the given number of columns, which
// represent the time from the beginning of the scene to end. The lane is drawn up to now.
func (b *timeline) drawLane(contender, columns int, now, end time.Duration) (line render.Line) {
	const minStep = time.Millisecond / 2 // shortest time that one column represents
	step := max(minStep, end/time.Duration(columns)+1)
	state, i, lane := 0, 0, b.lanes[contender]
	for c := range columns {
		until := step * time.Duration(c+1)
		if until-step > now {
			break
		}
		shown := state
		for ; i < len(lane) && lane[i].at < until; i++ {
			shown = max(shown, lane[i].style)
			if styles[lane[i].style].lasts {
				state = lane[i].style
			}
		}
		if last := len(line) - 1; last >= 0 && line[last].Style == styles[shown].color {
			line[last].Text += styles[shown].symbol
		} else {
			line = append(line, render.Span{Text: styles[shown].symbol, Style: styles[shown].color})
		}
	}
	return line
}

// handoffPatience is the time for which nobody holds the lock, after a contender was killed, until
// the picture names that contender as the reason.
const handoffPatience = 100 * time.Millisecond

// status describes the latest event of the scene in words. While a dead contender prevents others
// from acquiring the lock, it says how long the servers keep the session of that contender.
func (b *timeline) status(now time.Duration) string {
	if b.last.scene == nil {
		return ""
	}
	name := func(contender int) string {
		switch {
		case contender == 0:
			return "The first holder"
		case b.isReader(contender):
			return fmt.Sprintf("Reader %d", contender)
		}
		return fmt.Sprintf("Contender %d", contender)
	}
	if b.killed.scene != nil && len(b.holding) == 0 && b.result == nil && now-b.since > handoffPatience {
		left := max(0, b.scene.timeout-(now-b.killed.at))
		return fmt.Sprintf("%s was killed: its session ends in about %.1f s, and until then its znode blocks the queue",
			name(b.killed.Contender), left.Seconds())
	}
	return fmt.Sprintf("%.2f s  %s %s", b.last.at.Seconds(), name(b.last.Contender), styles[styleIndex(b.drawnState(b.last))].words)
}

// legend explains the symbols of those states that have occurred in the scene.
func (b *timeline) legend() (line render.Line) {
	for i, l := range styles {
		always := l.is == waits || l.is == holds || l.is == reads && b.scene.readerCount() > 0
		if l.legend != "" && (always || b.seen[i]) {
			if len(line) > 0 {
				line = append(line, render.Span{Text: "  "})
			}
			line = append(line, render.Span{Text: l.symbol, Style: l.color}, render.Span{Text: " " + l.legend})
		}
	}
	return line
}

func (b *timeline) title() string {
	return fmt.Sprintf("%s, %d contenders", b.scene.scheme.name, b.scene.n)
}

// counters returns the counts of the scene so far. At the end, they are those of the result.
func (b *timeline) counters() string {
	var t traffic
	inVain := b.vain
	if before := b.scene.baseline.Load(); before != nil {
		t = b.scene.wires.read().since(*before)
	}
	if r := b.result; r != nil {
		t, inVain = traffic{r.Requests, r.Notifications, r.Refused}, r.Vain
	}
	text := fmt.Sprintf("%d requests, %d woken, %d in vain", t.requests, t.notifications, inVain)
	if t.refused > 0 { // a client that is woken in vain tries to create the znode
		text += fmt.Sprintf(", %d rejected", t.refused)
	}
	if b.scene.readerCount() > 0 {
		text += fmt.Sprintf(", at most %d hold at once", b.together)
	}
	return text
}

// end returns the time that the scene is expected to take, or that it has taken if that is longer.
func (b *timeline) end() time.Duration {
	return max(b.now(), b.scene.expectedTime(b.scene.scheme, b.scene.n, b.scene.timeout))
}

// picture returns the scene as lines for a terminal of the given size. The lanes have room for the
// time from the beginning of the scene to end.
func (b *timeline) picture(columns, rows int, end time.Duration) []render.Line {
	const otherLines = 9 // number of lines above and below the lanes, with two for the status
	now := b.now()
	lines := []render.Line{
		{{Text: b.title(), Style: render.Strong}, {Text: fmt.Sprintf("  %.1f s", now.Seconds())}},
		{{Text: b.scene.scheme.about, Style: render.Dim}},
		render.PlainLine(b.counters()),
	}
	lines = append(lines, b.rows(columns-1, max(1, rows-1-otherLines), now, end)...)
	lines = append(lines, nil)
	for text := range strings.SplitSeq(render.Wrap(b.status(now), columns-1, "  "), "\n") {
		lines = append(lines, render.PlainLine(text))
	}
	return append(lines, b.legend(), nil)
}

// rows returns the lanes of all contenders, side by side if that is necessary to fit maxRows. If
// there are still too many lanes, it shows only the current state of each contender.
func (b *timeline) rows(columns, maxRows int, now, end time.Duration) (rows []render.Line) {
	// Space between two lanes, and minimum width of a lane, in columns.
	const gap, minLaneWidth = 2, 4
	n := b.scene.n
	digits := len(b.label(n))
	lanesPerRow := (n-1)/maxRows + 1
	rowCount := (n-1)/lanesPerRow + 1
	laneWidth := (columns+gap)/lanesPerRow - gap - digits - 1
	if laneWidth < minLaneWidth {
		return b.compactRows(columns-digits-1, digits)
	}
	for row := range rowCount {
		var line render.Line
		for i := row; i < n; i += rowCount {
			if i > row {
				begin := (i / rowCount) * (laneWidth + gap + digits + 1)
				line = append(line, render.Span{Text: strings.Repeat(" ", max(0, begin-line.Width()))})
			}
			line = append(line, render.Span{Text: fmt.Sprintf("%*s ", digits, b.label(i+1))})
			line = append(line, b.drawLane(i+1, laneWidth, now, end)...)
		}
		rows = append(rows, line)
	}
	return rows
}

// label returns the label of a contender's lane. If some contenders are readers, it ends with r for
// a reader, or with w for a writer.
func (b *timeline) label(contender int) string {
	switch {
	case b.scene.readerCount() == 0:
		return fmt.Sprint(contender)
	case b.isReader(contender):
		return fmt.Sprintf("%dr", contender)
	}
	return fmt.Sprintf("%dw", contender)
}

// compactRows shows the current state of each contender as one symbol. Each row begins with the
// number of its first contender.
func (b *timeline) compactRows(columns, digits int) (rows []render.Line) {
	for i, lane := range b.lanes[1:] {
		if i%columns == 0 {
			rows = append(rows, render.Line{{Text: fmt.Sprintf("%*d ", digits, i+1)}})
		}
		style := styles[0]
		if len(lane) > 0 {
			style = styles[lane[len(lane)-1].style]
		}
		last := len(rows) - 1
		rows[last] = append(rows[last], render.Span{Text: style.symbol, Style: style.color})
	}
	return rows
}
