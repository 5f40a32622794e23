package demo

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// A timeline is the history of one scene, with one lane for each contender.
type timeline struct {
	scene  *scene
	lanes  [][]laneEvent
	events []event       // events of all contenders, in order
	result *result       // nil until the scene is over
	length time.Duration // time of the last event, once the scene is over
}

// A laneEvent is an entry in a contender's lane: the beginning of a lasting state, or a single
// occurrence.
type laneEvent struct {
	at    time.Duration
	state state
}

func newTimeline(sc *scene) *timeline {
	return &timeline{scene: sc, lanes: make([][]laneEvent, sc.n+1)}
}

func (b *timeline) add(e event) {
	b.lanes[e.Contender] = append(b.lanes[e.Contender], laneEvent{e.at, e.Event})
	b.events = append(b.events, e)
}

// last returns the latest event, or an event without a scene if there is none.
func (b *timeline) last() event {
	if len(b.events) == 0 {
		return event{}
	}
	return b.events[len(b.events)-1]
}

// A moment is the state of a scene at one point in time.
type moment struct {
	last     event
	total    map[state]int // number of events of each kind
	vain     int           // number of wake-ups in vain since the measurement began
	together int           // maximum number of contenders that held the lock at the same time
	killed   event         // event of the contender that was killed; its scene is nil if there is none
	holders  int           // number of contenders that hold the lock
	since    time.Duration // time at which the number of holders changed
}

// at returns the state of the scene at the given time since its beginning.
func (b *timeline) at(now time.Duration) moment {
	m := moment{total: map[state]int{}}
	holding := map[int]bool{}
	for _, e := range b.events[:sort.Search(len(b.events), func(i int) bool { return b.events[i].at > now })] {
		m.total[e.Event]++
		switch e.Event {
		case holds:
			holding[e.Contender] = true
		case vain:
			m.vain++
		case releases:
			if e.Contender == 0 { // the measurement begins
				m.vain = 0
			}
		case killed:
			m.killed = e
		}
		if e.Event == releases || e.Event == killed {
			delete(holding, e.Contender)
		}
		if len(holding) != m.holders {
			m.holders, m.since = len(holding), e.at
		}
		m.together = max(m.together, m.holders)
		m.last = e
	}
	return m
}

// styles contains the symbols and descriptions of all states. If several states fall into one
// column of a lane, the one that comes last in this list is drawn. Each visible state has its own
// symbol. The colors are similar to those in the SVG picture.
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
	{refused, "x", false, "in vain: refused", "tries to create the znode and is rejected", render.Yellow},
	{holds, "█", true, "holds", "holds the lock", render.Green},
	{reads, "▒", true, "holds together with readers", "holds the lock together with other readers", render.Cyan},
	{gaveUp, "?", true, "gave up", "gives up: its predecessor vanished between list and watch", render.Strong},
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

// drawnState returns the state as which a contender's state is drawn.
func (b *timeline) drawnState(contender int, s state) state {
	if s == holds && b.isReader(contender) {
		return reads
	}
	return s
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
		shown := state
		for ; i < len(lane) && lane[i].at < until && lane[i].at <= now; i++ {
			l := styleIndex(b.drawnState(contender, lane[i].state))
			shown = max(shown, l)
			if styles[l].lasts {
				state = l
			}
		}
		if until-step > now {
			break
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
func (b *timeline) status(m moment, now time.Duration) string {
	if m.last.scene == nil {
		return ""
	}
	name := func(contender int) string {
		switch {
		case contender == 0:
			return "The starter"
		case b.isReader(contender):
			return fmt.Sprintf("Reader %d", contender)
		}
		return fmt.Sprintf("Contender %d", contender)
	}
	if m.killed.scene != nil && m.holders == 0 && now-m.since > handoffPatience && (b.result == nil || now < b.length) {
		left := max(0, b.scene.timeout-(now-m.killed.at))
		return fmt.Sprintf("%s was killed: its session ends in about %.1f s, and until then its znode blocks the queue", name(m.killed.Contender), left.Seconds())
	}
	return fmt.Sprintf("%.1f ms  %s %s", ms(m.last.at), name(m.last.Contender), styles[styleIndex(b.drawnState(m.last.Contender, m.last.Event))].words)
}

// legend explains the symbols of those states that have occurred in the scene.
func (b *timeline) legend(m moment) (line render.Line) {
	for _, l := range styles {
		occurred := m.total[l.is] > 0 || l.is == waits || l.is == holds || l.is == reads && b.scene.readerCount() > 0
		if l.legend != "" && occurred {
			line = append(line, render.Span{Text: l.symbol, Style: l.color}, render.Span{Text: " " + l.legend + "  "})
		}
	}
	return line
}

func (b *timeline) title() string {
	return fmt.Sprintf("%s, %d contenders", b.scene.scheme.name, b.scene.n)
}

// counters returns the counts of the scene up to a moment. At the end, they are those of the
// result.
func (b *timeline) counters(m moment, now time.Duration) string {
	requests, notified, inVain, rejected := m.last.counts.requests, m.last.counts.notifications, m.vain, m.last.counts.refused
	if r := b.result; r != nil && now >= b.length {
		requests, notified, inVain, rejected = r.Requests, r.Notifications, r.Vain, r.Refused
	}
	text := fmt.Sprintf("%d requests, %d notified, %d in vain", requests, notified, inVain)
	if rejected > 0 { // a client that is woken in vain tries to create the znode
		text += fmt.Sprintf(" (%d refused)", rejected)
	}
	if b.scene.readerCount() > 0 {
		text += fmt.Sprintf(", at most %d hold at once", m.together)
	}
	return text
}

// picture returns the scene at the given time since its beginning, as lines for a terminal of the
// given size. The lanes have room for the time from the beginning to end.
func (b *timeline) picture(columns, rows int, now, end time.Duration) []render.Line {
	const otherLines = 7 // number of lines above and below the lanes, and one for a remark
	m := b.at(now)
	lines := []render.Line{
		{{Text: b.title(), Style: render.Strong}, {Text: fmt.Sprintf("  %.1f ms", ms(min(now, max(end, b.length))))}},
		render.PlainLine(b.counters(m, now)),
	}
	lines = append(lines, b.rows(columns-1, max(1, rows-1-otherLines), now, end)...)
	lines = append(lines, nil)
	for text := range strings.SplitSeq(render.Wrap(b.status(m, now), columns-1, "  "), "\n") {
		lines = append(lines, render.PlainLine(text))
	}
	return append(lines, b.legend(m))
}

// rows returns the lanes of all contenders, side by side if that is necessary to fit maxRows. If
// there are still too many lanes, it shows only the current state of each contender.
func (b *timeline) rows(columns, maxRows int, now, end time.Duration) (rows []render.Line) {
	// Space between two lanes, and minimum width of a lane, in columns.
	const gap, minLaneWidth = 2, 4
	digits := len(b.label(b.scene.n))
	lanesPerRow := (len(b.lanes)-1)/maxRows + 1
	rowCount := (len(b.lanes)-1)/lanesPerRow + 1
	laneWidth := (columns+gap)/lanesPerRow - gap - digits - 1
	if laneWidth < minLaneWidth {
		return b.compactRows(columns-digits-1, digits, now)
	}
	for row := range rowCount {
		var line render.Line
		for i := row; i < len(b.lanes); i += rowCount {
			if i > row {
				line = append(line, render.Span{Text: strings.Repeat(" ", max(0, (i/rowCount)*(laneWidth+gap+digits+1)-line.Width()))})
			}
			line = append(line, render.Span{Text: fmt.Sprintf("%*s ", digits, b.label(i))})
			line = append(line, b.drawLane(i, laneWidth, now, end)...)
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
func (b *timeline) compactRows(columns, digits int, now time.Duration) (rows []render.Line) {
	for i, lane := range b.lanes {
		if i%columns == 0 {
			rows = append(rows, render.Line{{Text: fmt.Sprintf("%*d ", digits, i)}})
		}
		style := styles[0]
		if at := sort.Search(len(lane), func(j int) bool { return lane[j].at > now }); at > 0 {
			style = styles[styleIndex(b.drawnState(i, lane[at-1].state))]
		}
		last := len(rows) - 1
		rows[last] = append(rows[last], render.Span{Text: style.symbol, Style: style.color})
	}
	return rows
}
