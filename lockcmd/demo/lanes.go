package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// A picture shows one scene at a moment, with one lane for each contender except the starter.
type picture struct {
	*scene
	tally
	result *result // the counts so far, or the final ones once the scene is over
	over   bool
	events []event
	lanes  [][]event     // by the number of the contender
	now    time.Duration // the present or, once the scene is over, its end
	end    time.Duration // time for which the lanes have room
}

// picture returns the picture of the scene.
func (sc *scene) picture() picture {
	p := picture{scene: sc, result: sc.result.Load(), tally: sc.tally(), lanes: make([][]event, sc.n+1)}
	p.events, p.now = sc.past()
	for _, e := range p.events {
		p.lanes[e.contender.number] = append(p.lanes[e.contender.number], e)
	}
	if p.over = p.result != nil; p.over {
		p.now = p.events[len(p.events)-1].at
	} else {
		p.result = sc.measure(sc.costSoFar(), p.tally)
	}
	p.end = max(p.now, sc.expectedTime(sc.timeout))
	return p
}

// styles contains the symbols and descriptions of all states. If several states fall into one
// column of a lane, the one that comes last in this list is drawn. Each visible state has its own
// symbol.
var styles = []struct {
	is     state
	symbol string
	legend string
	words  string
	color  render.Style
}{
	{"", " ", "", "", render.Plain},
	{left, " ", "", "is done", render.Plain},
	{releases, " ", "", "releases the lock", render.Plain},
	{waits, "·", "waits", "waits", render.Dim},
	{woken, "*", "woken", "is woken: is it first?", render.Blue},
	{vain, "!", "in vain", "was woken needlessly and waits again", render.Red},
	{refused, "x", "rejected", "tries to create the znode and is rejected", render.Yellow},
	{holds, "█", "holds", "holds the lock", render.Green},
	{reads, "▒", "readers hold", "holds the lock together with other readers", render.Cyan},
	{killed, "†", "killed", "is killed: its znode stays until the session times out", render.Strong},
}

// reads is the state holds of a reader. It exists only in pictures.
const reads state = "reads"

// style returns the index in styles of the state as which the event is drawn.
func (e event) style() int {
	drawn := e.state
	if drawn == holds && e.contender.reader {
		drawn = reads
	}
	for i, s := range styles {
		if s.is == drawn {
			return i
		}
	}
	return 0
}

// drawLane returns a lane as a line of at most the given number of columns, which represent the time
// from the beginning of the scene to end. The lane is drawn up to now.
func drawLane(lane []event, columns int, now, end time.Duration) (line render.Line) {
	const minStep = time.Millisecond / 2 // shortest time that one column represents
	step := max(minStep, end/time.Duration(columns)+1)
	state := 0
	for c := range columns {
		until := step * time.Duration(c+1)
		if until-step > now {
			break
		}
		shown := state
		for ; len(lane) > 0 && lane[0].at < until; lane = lane[1:] {
			shown = max(shown, lane[0].style())
			if s := lane[0].state; s != woken && s != vain && s != refused { // these are single occurrences
				state = lane[0].style()
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

// handoffPatience is the time for which nothing happens, after a contender was killed, until the
// picture names that contender as the reason.
const handoffPatience = 100 * time.Millisecond

// status describes the latest event of the scene in words. While a dead contender prevents others
// from acquiring the lock, it says how long the servers keep the session of that contender.
func (p picture) status() string {
	if len(p.events) == 0 {
		return ""
	}
	name := func(c *contender) string {
		switch {
		case c.number == 0:
			return "The first holder"
		case c.reader:
			return fmt.Sprintf("Reader %d", c.number)
		}
		return fmt.Sprintf("Contender %d", c.number)
	}
	last := p.events[len(p.events)-1]
	if dead := p.killed; dead.contender != nil && len(p.holders) == 0 && !p.over && p.now-last.at > handoffPatience {
		left := max(0, p.timeout-(p.now-dead.at))
		return fmt.Sprintf("%s was killed: its session ends in about %.1f s, and until then its znode blocks the queue",
			name(dead.contender), left.Seconds())
	}
	return fmt.Sprintf("%.2f s  %s %s", last.at.Seconds(), name(last.contender), styles[last.style()].words)
}

// legend explains the symbols of those states that have occurred in the scene.
func (p picture) legend() (line render.Line) {
	seen := map[state]bool{waits: true, holds: true, reads: p.hasReaders()}
	for _, e := range p.events {
		seen[styles[e.style()].is] = true
	}
	for _, s := range styles {
		if s.legend == "" || !seen[s.is] {
			continue
		}
		if len(line) > 0 {
			line = append(line, render.Span{Text: "  "})
		}
		line = append(line, render.Span{Text: s.symbol, Style: s.color}, render.Span{Text: " " + s.legend})
	}
	return line
}

// counters returns the counts of the scene so far.
func (p picture) counters() string {
	r := p.result
	text := fmt.Sprintf("%d requests, %d woken, %d in vain", r.Requests, r.Notifications, r.Vain)
	if r.Refused > 0 { // a client that is woken in vain tries to create the znode
		text += fmt.Sprintf(", %d rejected", r.Refused)
	}
	if p.hasReaders() {
		text += fmt.Sprintf(", at most %d hold at once", p.together)
	}
	return text
}

// lines returns the picture as lines for a terminal of the given size.
func (p picture) lines(columns, rows int) []render.Line {
	const otherLines = 9 // number of lines above and below the lanes, with two for the status
	lines := []render.Line{
		{{Text: p.title(), Style: render.Strong}, {Text: fmt.Sprintf("  %.1f s", p.now.Seconds())}},
		{{Text: p.scheme.about, Style: render.Dim}},
		render.PlainLine(p.counters()),
	}
	lines = append(lines, p.rows(columns-1, max(1, rows-1-otherLines))...)
	lines = append(lines, nil)
	for text := range strings.SplitSeq(render.Wrap(p.status(), columns-1, "  "), "\n") {
		lines = append(lines, render.PlainLine(text))
	}
	return append(lines, p.legend(), nil)
}

// rows returns the lanes of all contenders, side by side if that is necessary to fit maxRows. If
// there are still too many lanes, it shows only the current state of each contender.
func (p picture) rows(columns, maxRows int) (rows []render.Line) {
	// Space between two lanes, and minimum width of a lane, in columns.
	const gap, minLaneWidth = 2, 4
	digits := len(p.label(p.n))
	lanesPerRow := (p.n-1)/maxRows + 1
	rowCount := (p.n-1)/lanesPerRow + 1
	laneWidth := (columns+gap)/lanesPerRow - gap - digits - 1
	if laneWidth < minLaneWidth {
		return p.compactRows(columns-digits-1, digits)
	}
	for row := range rowCount {
		var line render.Line
		for i := row; i < p.n; i += rowCount {
			if i > row {
				begin := (i / rowCount) * (laneWidth + gap + digits + 1)
				line = append(line, render.Span{Text: strings.Repeat(" ", max(0, begin-line.Width()))})
			}
			line = append(line, render.Span{Text: fmt.Sprintf("%*s ", digits, p.label(i+1))})
			line = append(line, drawLane(p.lanes[i+1], laneWidth, p.now, p.end)...)
		}
		rows = append(rows, line)
	}
	return rows
}

// label returns the label of a contender's lane. If some contenders are readers, it ends with r for
// a reader, or with w for a writer.
func (p picture) label(number int) string {
	switch {
	case !p.hasReaders():
		return fmt.Sprint(number)
	case p.isReader(number):
		return fmt.Sprintf("%dr", number)
	}
	return fmt.Sprintf("%dw", number)
}

// compactRows shows the current state of each contender as one symbol. Each row begins with the
// number of its first contender.
func (p picture) compactRows(columns, digits int) (rows []render.Line) {
	for i, lane := range p.lanes[1:] {
		if i%columns == 0 {
			rows = append(rows, render.Line{{Text: fmt.Sprintf("%*d ", digits, i+1)}})
		}
		style := styles[0]
		if len(lane) > 0 {
			style = styles[lane[len(lane)-1].style()]
		}
		last := len(rows) - 1
		rows[last] = append(rows[last], render.Span{Text: style.symbol, Style: style.color})
	}
	return rows
}
