package queue

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// Prom is a Survey in the text format of Prometheus, version 0.0.4, for node_exporter's textfile
// collector. It does not embed the Survey, because it is neither a render.Fitter nor a
// render.Tabler.
type Prom struct{ Survey *Survey }

var _ render.Value = Prom{}

// Remarks returns those of the Survey.
func (p Prom) Remarks() []string { return p.Survey.Remarks() }

// promMetrics contains the metrics that have a value for each queue.
var promMetrics = []struct {
	name, help string
	value      func(q *Queue) float64
}{
	{"zookeeper_lock_holders", "Number of clients that hold the lock.", func(q *Queue) float64 { return float64(len(q.holders())) }},
	{"zookeeper_lock_waiters", "Number of clients that wait for the lock.", func(q *Queue) float64 { return float64(q.waiters()) }},
	{"zookeeper_lock_longest_wait_seconds", "Time since the first waiting client joined the queue; 0 if no client waits.", (*Queue).longestWait},
}

// promLabel escapes the value of a label.
var promLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func promPath(path string) string {
	return promLabel.Replace(strings.ToValidUTF8(path, "\uFFFD"))
}

// Text implements render.Value. The samples of each metric are ordered by path, so that only values
// differ between two readings.
func (p Prom) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# HELP zookeeper_lock_queues Number of locks below path with a holder or a waiter.\n# TYPE zookeeper_lock_queues gauge\n"+
		"zookeeper_lock_queues{path=\"%s\"} %d\n", promPath(p.Survey.Path), len(p.Survey.Queues))
	queues := slices.SortedFunc(slices.Values(p.Survey.Queues), func(a, b *Queue) int { return strings.Compare(a.Path, b.Path) })
	for _, m := range promMetrics {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", m.name, m.help, m.name)
		for _, q := range queues {
			fmt.Fprintf(&b, "%s{path=\"%s\"} %g\n", m.name, promPath(q.Path), m.value(q))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// longestWait returns the age of the first waiter, in seconds.
func (q *Queue) longestWait() float64 {
	if first := q.firstWaiter(); first != nil {
		return first.age.Round(time.Millisecond).Seconds()
	}
	return 0
}
