package lockcmd

import (
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// drawEvery is how often the line of a wait is drawn anew.
const drawEvery = 200 * time.Millisecond

// showWait keeps one line on the terminal that says what is waited for, until
// end is called. Elsewhere that is remarked once.
func (o *owned) showWait() (end func()) {
	start := time.Now()
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { // until end, which waits for it
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		said := false
		for {
			select {
			case <-done:
				o.env.Live("")
				return
			case <-tick.C:
			}
			text := o.waitLine(time.Since(start))
			if text == "" || said {
				continue
			}
			if !o.env.Live(text) {
				o.env.Note(text)
				said = true
			}
		}
	})
	return func() {
		close(done)
		drawing.Wait()
	}
}

// waitLine says at which place the lock waits, behind whom, and for how long.
func (o *owned) waitLine(waited time.Duration) string {
	s := o.current()
	if s.State != zklock.Queued || s.Ahead == nil {
		return ""
	}
	return fmt.Sprintf("waiting for %s, %s: place %d, behind %s", o.path, waited.Round(time.Second), s.Place, behind(s.Ahead))
}

// behind names a contender: who, since when, and the znode.
func behind(a *zklock.Ahead) string {
	who := describeWho(a.Data)
	if who != "" {
		who += ", "
	}
	return fmt.Sprintf("%ssince %s (%s)", who, a.Since.Local().Format(time.TimeOnly), path.Base(a.Node))
}
