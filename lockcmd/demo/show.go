package demo

import (
	"context"
	"time"
)

// framePause is the time between two updates of the screen.
const framePause = 100 * time.Millisecond

// follow shows the scene until over is closed: on a terminal as lanes, and elsewhere as a line for
// each event. Contenders never wait for output.
func (sc *scene) follow(over <-chan struct{}) error {
	tick := time.NewTicker(framePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := sc.update(); err != nil {
				return err
			}
		case <-over:
			if err := sc.update(); err != nil {
				return err
			}
			return sc.region.Close(sc.shown)
		}
	}
}

// update shows what has happened since the last update.
func (sc *scene) update() error {
	sc.drawing.Lock()
	defer sc.drawing.Unlock()
	return sc.updateLocked()
}

// updateLocked is like update. The caller must hold drawing.
func (sc *scene) updateLocked() error {
	columns, rows := sc.region.Size()
	switch {
	case columns == 0:
		events, _ := sc.past()
		for _, e := range events[sc.printed:] {
			if err := sc.env.Screen.Print(e); err != nil {
				return err
			}
			sc.printed++
		}
		return nil
	case !sc.shown:
		return sc.region.Draw("counting at full speed: " + sc.title())
	}
	return sc.region.Paint(sc.picture().lines(columns, rows)...)
}

// waitForEnter waits until the user presses Enter. The picture of the lanes stays on the screen above
// the question, and the clock of the scene advances by at most the time for which a contender holds
// the lock. Several readers may hold it at the same time; they wait one after another.
func (sc *scene) waitForEnter(ctx context.Context) error {
	sc.drawing.Lock()
	defer sc.drawing.Unlock()
	if err := sc.updateLocked(); err != nil {
		return err
	}
	if err := sc.region.Close(true); err != nil {
		return err
	}
	began := time.Now()
	err := sc.step(ctx)
	sc.skip(max(0, time.Since(began)-sc.hold))
	return err
}
