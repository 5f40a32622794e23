package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// board is the history of one scene: a lane for each contender.
type board struct {
	scene  *scene
	lanes  [][]mark
	last   event
	total  map[state]int
	result *result // once it is over
}

// mark is the beginning of a state, or a moment, in a lane.
type mark struct {
	at time.Duration
	is state
}

func newBoard(sc *scene) *board {
	return &board{scene: sc, lanes: make([][]mark, sc.n+1), total: map[state]int{}}
}

func (b *board) add(e event) {
	b.lanes[e.Contender] = append(b.lanes[e.Contender], mark{e.at, e.Event})
	b.total[e.Event]++
	if e.Contender == 0 && e.Event == releases { // from here on it counts
		b.total[vain] = 0
	}
	b.last = e
}

// looks are how states are drawn, and described. Of those that fall into one place
// the last of this list is drawn. Each has a sign of its own.
var looks = []struct {
	is     state
	sign   string
	lasts  bool // until another one that lasts
	legend string
	words  string
}{
	{"", " ", true, "", ""},
	{left, " ", true, "", "is done"},
	{releases, " ", true, "", "releases the lock"},
	{waits, "·", true, "waits", "waits"},
	{woken, "*", false, "woken", "is woken: is it first?"},
	{vain, "!", false, "in vain", "was woken needlessly and waits again"},
	{refused, "x", false, "refused", "tries to create the znode and is rejected"},
	{holds, "█", true, "holds", "holds the lock"},
	{lostTurn, "?", true, "gave up", "gives up: its predecessor vanished between list and watch"},
	{killed, "†", true, "killed", "is killed: its znode stays until the session times out"},
}

// look is the place of a state in looks.
func look(s state) int {
	for i, l := range looks {
		if l.is == s {
			return i
		}
	}
	return 0
}

// strip draws a lane from the beginning to the last event, in so many columns.
func (b *board) strip(lane []mark, columns int) string {
	const least = 2 * time.Millisecond // of a column
	step := max(least, b.last.at/time.Duration(columns)+1)
	var s strings.Builder
	state, i := 0, 0
	for c := range columns {
		end := step * time.Duration(c+1)
		shown := state
		for ; i < len(lane) && lane[i].at < end; i++ {
			l := look(lane[i].is)
			shown = max(shown, l)
			if looks[l].lasts {
				state = l
			}
		}
		if end-step > b.last.at {
			break
		}
		s.WriteString(looks[shown].sign)
	}
	return s.String()
}

// words tells the last event.
func (b *board) words() string {
	if b.last.scene == nil {
		return ""
	}
	who := fmt.Sprintf("Contender %d", b.last.Contender)
	if b.last.Contender == 0 {
		who = "The starter"
	}
	return fmt.Sprintf("%.1f ms  %s %s", ms(b.last.at), who, looks[look(b.last.Event)].words)
}

// legend tells the signs that the scene has.
func (b *board) legend() string {
	var parts []string
	for _, l := range looks {
		if l.legend != "" && (b.total[l.is] > 0 || l.is == waits || l.is == holds) {
			parts = append(parts, l.sign+" "+l.legend)
		}
	}
	return strings.Join(parts, "  ")
}

// picture is the scene as it is now, in a window.
func (b *board) picture(columns, rows int) []string {
	const words = 5 // lines that are no lanes
	t := b.scene.soFar()
	lines := []string{
		fmt.Sprintf("%s, %d contenders", b.scene.scheme.name, b.scene.n),
		fmt.Sprintf("%d requests, %d notified, %d in vain, %d refused", t.requests, t.notifications, b.total[vain], t.refused),
	}
	lines = append(lines, b.rows(columns-1, max(1, rows-1-words))...)
	return append(lines, "", render.Cut(b.words(), columns-1), render.Cut(b.legend(), columns-1))
}

// rows are the lanes side by side, or, where they are too many, a sign for each
// contender as it is now.
func (b *board) rows(columns, most int) (rows []string) {
	const gap, least = 2, 4 // between two lanes; of a lane that can be read
	digits := len(fmt.Sprint(b.scene.n))
	beside := (len(b.lanes)-1)/most + 1
	high := (len(b.lanes)-1)/beside + 1
	wide := (columns+gap)/beside - gap - digits - 1
	if wide < least {
		return b.crowd(columns-digits-1, digits)
	}
	for row := range high {
		var line strings.Builder
		for i := row; i < len(b.lanes); i += high {
			strip := b.strip(b.lanes[i], wide)
			fmt.Fprintf(&line, "%*d %s%s", digits, i, strip, strings.Repeat(" ", wide-render.Width(strip)+gap))
		}
		rows = append(rows, strings.TrimRight(line.String(), " "))
	}
	return rows
}

// crowd has a sign for each contender, and in each row the number of the first.
func (b *board) crowd(columns, digits int) (rows []string) {
	var line strings.Builder
	for i, lane := range b.lanes {
		if i%columns == 0 {
			fmt.Fprintf(&line, "\n%*d ", digits, i)
		}
		sign := " "
		if len(lane) > 0 {
			sign = looks[look(lane[len(lane)-1].is)].sign
		}
		line.WriteString(sign)
	}
	return strings.Split(line.String(), "\n")[1:]
}
