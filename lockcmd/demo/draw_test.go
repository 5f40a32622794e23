package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// The lanes fit windows of all sizes.
func TestLanes(t *testing.T) {
	for _, window := range [][2]int{{60, 20}, {100, 30}, {200, 60}} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
			b.screen = &commandtest.Screen{Columns: window[0], Rows: window[1]}
			b.env.Screen = b.screen
			b.runScenes(t, "parent", "-n", "4,30", "--hold", "1ms")
			b.runScenes(t, "curator", "-n", "80", "--hold", "0")
			sizes := map[string]bool{}
			for _, picture := range b.screen.Drawn() {
				widest := slices.MaxFunc(picture, func(a, b string) int { return render.Width(a) - render.Width(b) })
				if len(picture) >= window[1] || render.Width(widest) >= window[0] {
					t.Fatalf("%d lines and %d columns in %v: %q", len(picture), render.Width(widest), window, widest)
				}
				title, _, _ := strings.Cut(picture[0], "  ") // the time comes after it
				sizes[title] = true
			}
			if len(sizes) != 3 {
				t.Errorf("shown: %v", sizes)
			}
			if out := b.screen.Printed(); strings.Contains(out, "woken\n") {
				t.Errorf("events are printed beside the lanes: %s", out)
			}
		})
	}
}

// The last picture of a scene stays on the screen. Without -n, the larger sizes are only counted.
func TestLastPicture(t *testing.T) {
	t.Parallel()
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	b.screen = &commandtest.Screen{Columns: 100, Rows: 40}
	b.env.Screen = b.screen
	sum := b.runScenes(t, "curator", "--hold", "20ms")
	if len(sum.Results) != 3 {
		t.Errorf("%d results", len(sum.Results))
	}
	last := b.screen.Kept()
	if !strings.Contains(last[0], "curator, 5 contenders") || last[2] != "11 requests, 5 woken, 0 in vain" {
		t.Errorf("%q", last)
	}
	for i := range 5 { // five contenders have five lanes
		if !strings.HasPrefix(last[3+i], fmt.Sprint(i+1)+" ") {
			t.Errorf("the lane of contender %d is not in %q", i+1, last[3+i])
		}
	}
	if last[8] != "" {
		t.Errorf("a sixth lane: %q", last[8])
	}
	for _, picture := range b.screen.Drawn() {
		if text := strings.Join(picture, "\n"); strings.Contains(text, "20 contenders") && strings.Contains(text, "requests") {
			t.Errorf("a scene at full speed is drawn: %s", text)
		}
	}
	if notes := b.screen.Notes(); notes != "" {
		t.Errorf("a short demonstration is announced: %s", notes)
	}
}

// Before a long demonstration, lockdemo says how long it takes. Without arguments, it takes less than
// a minute.
func TestAnnounce(t *testing.T) {
	for _, c := range []struct {
		columns int
		line    string
		want    string
	}{
		{80, "", `^this takes about [345]\d s: 10 scenes that you can follow, and then 20 at full speed$`},
		{0, "", `^this takes about [51][0-9]? s: 30 scenes$`},
		{80, "naive zksh -n 20", `^this takes about 15 s: 2 scenes$`},
		{80, "naive -n 20 --hold 1m", `^this takes about 20 minutes$`},
		{80, "naive", `^$`},
		{80, "zksh --kill-holder", `^this takes about [51]\d? s: 1 scenes that you can follow, and then 2 at full speed$`},
	} {
		b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
		b.screen.Columns, b.screen.Rows = c.columns, 24
		b.plan(t, strings.Fields(c.line)...).announce(b.env)
		if got := b.screen.Notes(); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%d columns, %q: %q", c.columns, c.line, got)
		}
	}
}

// Each column of a lane shows the most important state in it.
func TestStrip(t *testing.T) {
	const end = 19 * time.Millisecond
	c := &contender{}
	at := func(ms int, s state) event { return event{time.Duration(ms) * time.Millisecond, c, s} }
	for want, lane := range map[string][]event{
		"··········": {at(0, waits)},
		"··*!··*███": {at(0, waits), at(4, woken), at(6, vain), at(12, woken), at(14, holds)},
		"·x··██    ": {at(0, waits), at(3, refused), at(8, holds), at(11, releases), at(11, left)},
		"··††††††††": {at(0, waits), at(5, killed)},
		"          ": nil,
	} {
		if got := drawLane(lane, 10, end, end).Terminal(10, false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	seen := map[string]bool{}
	for _, l := range styles[3:] { // visible states
		if seen[l.symbol] {
			t.Errorf("%q has the sign of another", l.is)
		}
		seen[l.symbol] = true
	}
}

// The summary lists the cheapest scheme first and names failures.
func TestSummary(t *testing.T) {
	good := func(scheme string, n, requests int) *result {
		return &result{Scheme: scheme, N: n, Requests: requests, P50: 1, P99: 2, Exclusion: true, Agree: true}
	}
	s := &summary{[]*result{good("naive", 5, 30), good("naive", 50, 2500), good("curator", 5, 11), good("curator", 50, 101)}}
	s.Results[2].formula, s.Results[3].formula = chainFormula, chainFormula
	s.sort()
	var wide, narrow strings.Builder
	if err := errors.Join(s.Text(&wide), s.FitText(&narrow, 60)); err != nil {
		t.Fatal(err)
	}
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`\ncurator +101 +101 `, `\nnaive +2500 +varies `, `\ncurator +11 +101\n`, `\nIn every scene, the lock was exclusive`,
	} {
		if !regexp.MustCompile(want).MatchString(wide.String()) {
			t.Errorf("no %q in\n%s", want, wide.String())
		}
	}
	for line := range strings.Lines(narrow.String()) {
		if n := render.Width(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	s.Results[1].Exclusion, s.Results[0].Agree = false, false
	err := s.verdict()
	for _, want := range []string{"naive n=50: mutual exclusion failed", "curator n=50: the counts differ", "predicts 101 and 50"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	b, err := json.Marshal(&summary{[]*result{good("parent", 20, 231)}})
	want := `{"summary":[{"scheme":"parent","n":20,"requests":231,"notifications":0,"vain":0,"refused":0,"overtakes":0,` +
		`"handoff_p50_ms":1,"handoff_p99_ms":2,"exclusion":true,"agree":true}]}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

// A count outside of the formula's bounds does not agree.
func TestFormula(t *testing.T) {
	sc := (&stage{timeout: usualTimeout}).newScene(setting{scheme: scheme{name: "x", formula: herdFormula}, n: 5})
	for _, c := range sc.contenders {
		c.record(left)
	}
	for want, costs := range map[bool][]traffic{
		true:  {{requests: 11, notifications: 5}, {requests: 21, notifications: 20}},
		false: {{requests: 10, notifications: 5}, {requests: 22, notifications: 20}, {requests: 11, notifications: 4}, {requests: 21, notifications: 21}},
	} {
		for _, cost := range costs {
			if r := sc.measure(cost, sc.tally()); r.Agree != want || r.expected() != "11–21" {
				t.Errorf("%+v: agree %t, expected %s", cost, r.Agree, r.expected())
			}
		}
	}
	if got := (bounds{3, unlimited}).String() + " " + exactly(7).String(); got != "≥ 3 7" {
		t.Error(got)
	}
}

// Two holders that exclude each other are detected, and overtaking is counted.
func TestTally(t *testing.T) {
	sc := (&stage{}).newScene(setting{n: 2})
	for i, c := range sc.contenders {
		c.reader = i > 0
		c.setTicket(i)
		c.beginWait()
	}
	writer, first, second := sc.contenders[0], sc.contenders[1], sc.contenders[2]
	second.acquired()
	first.acquired()
	// Both readers overtook the writer; readers among themselves do not count.
	if y := sc.tally(); y.broken || y.overtakes != 2 {
		t.Errorf("two readers: broken %v, overtook %d", y.broken, y.overtakes)
	}
	writer.acquired()
	if !sc.tally().broken {
		t.Error("a writer beside readers is not noticed")
	}
}

// Invalid arguments are rejected before anything happens.
func TestInvalidFlags(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	for _, line := range []string{"-n 0", "-n 5,x", "-n 5000", "--hold -1s", "--step", "nobody", "parent --bogus"} {
		err := commandtest.Run(zktest.Within(t), Command(), b.env, strings.Fields(line)...)
		if bad := (*commands.UsageError)(nil); !errors.As(err, &bad) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if out := b.screen.Printed(); out != "" {
		t.Error(out)
	}
}

// The sentence about the latest event is wrapped in a narrow window, and the sentences about the
// recipes fit.
func TestStatusFits(t *testing.T) {
	for _, last := range []state{vain, killed} {
		for _, s := range schemes {
			sc := (&stage{timeout: 4 * time.Second, wires: newWireCounter()}).newScene(setting{scheme: s, n: 50})
			sc.start = time.Now().Add(-98765 * time.Millisecond)
			sc.contenders[42].record(last)
			for _, line := range sc.picture().lines(60, 20) {
				if line.Width() >= 60 {
					t.Errorf("%d columns: %q", line.Width(), line.Text())
				}
			}
		}
	}
}
