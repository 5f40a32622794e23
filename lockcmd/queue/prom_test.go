package queue

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
)

// promSample matches a line with a value of a metric, as in Prometheus' text format.
var promSample = regexp.MustCompile(`^([a-z_]+)\{path="((?:[^"\\\n]|\\[\\"n])*)"\} (\d+(?:\.\d+)?)$`)

// The text for Prometheus has a type and a help text before the values of each metric, and escapes
// the path.
func TestProm(t *testing.T) {
	waiter := func(ctime int64, age time.Duration) *Contender {
		return &Contender{State: waits, stat: &zk.Stat{Czxid: 1, Ctime: ctime}, age: age}
	}
	s := &Survey{Path: "/", Queues: []*Queue{
		{Path: "/z", Contenders: []*Contender{waiter(1, time.Second)}},
		{Path: "/a", Contenders: []*Contender{{State: holds}, waiter(1, 2500*time.Millisecond), waiter(2, 0)}},
		{Path: "/odd \"\\\n路径", Contenders: []*Contender{{State: holds}}},
	}}
	var b strings.Builder
	if err := (Prom{s}).Text(&b); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	declared := ""
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if name, found := strings.CutPrefix(line, "# HELP "); found {
			declared, _, _ = strings.Cut(name, " ")
		} else if name, found := strings.CutPrefix(line, "# TYPE "); found {
			if name != declared+" gauge" {
				t.Errorf("%q after the help of %s", line, declared)
			}
		} else if m := promSample.FindStringSubmatch(line); m == nil || m[1] != declared {
			t.Errorf("not a value of %s: %q", declared, line)
		} else {
			got[m[1]+" "+m[2]] = m[3]
		}
	}
	for key, want := range map[string]string{
		"zookeeper_lock_holders /a": "1", "zookeeper_lock_waiters /a": "2", "zookeeper_lock_longest_wait_seconds /a": "2.5",
		"zookeeper_lock_queues /": "3", "zookeeper_lock_holders /z": "0",
		`zookeeper_lock_waiters /odd \"\\\n路径`: "0", `zookeeper_lock_longest_wait_seconds /odd \"\\\n路径`: "0",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %s", key, got[key], want)
		}
	}
	if text := b.String(); strings.Index(text, `holders{path="/a"}`) > strings.Index(text, `holders{path="/z"}`) {
		t.Errorf("not ordered by path:\n%s", text)
	}
	if _, fits := any(Prom{s}).(render.Fitter); fits {
		t.Error("a terminal gets another text")
	}
	if len(got) != 10 {
		t.Errorf("%d values: %v", len(got), got)
	}
}
