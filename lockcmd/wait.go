package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// errTimeUp is the end of -w.
var errTimeUp = errors.New("timed out")

// acquire asks the recipe for the lock. What comes when the attempt has ended, or
// is not to be kept, is given back.
func (o *owned) acquire(a *attempt, f *lockFlags) (l *taken, err error) {
	defer close(a.done)
	defer a.cancel(nil)
	ctx := a.ctx
	fresh := o.current().State == asking
	told := !f.try && fresh && o.env.Mode == commands.ByHand && o.foretell(ctx, a.kind.mode, f.background)
	if f.limit.Given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.limit.Value, f.late)
		defer cancel()
	}
	searched, found := context.WithCancel(ctx)
	var search sync.WaitGroup
	if !f.try && !told {
		search.Go(func() { o.searchDeadlock(searched, f.background) })
	}
	lease, err := o.take(ctx, a.kind.mode, f.try)
	found()
	search.Wait()
	if err != nil {
		o.with(o.refused)
		switch {
		case errors.Is(err, zklock.ErrBusy):
			return nil, o.busy(f, o.held(err))
		case errors.As(err, new(*zkconn.Error)): // it says why, whatever time it is
		case context.Cause(ctx) == errTimeUp:
			return nil, o.tooLate(f)
		case a.ctx.Err() != nil && !f.try:
			err = o.notWaited(a)
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		return nil, &commands.FinalError{Err: err}
	}
	o.with(func() {
		o.table.seq++
		l, err = o.granted(lease, o.table.seq, time.Now())
	})
	switch {
	case err == nil:
		return l, nil
	case a.ctx.Err() != nil:
		err = &commands.FinalError{Err: o.notWaited(a)}
	case a.command != nil:
		err = lockLost(fmt.Errorf("%w; %s was not started", err, a.command.name))
	default:
		err = lockLost(o.releasedForAnother())
	}
	a.undone = o.giveBackAfter(a.ctx, l)
	return nil, errors.Join(err, a.undone)
}

// notWaited is the error of an attempt that was ended.
func (o *owned) notWaited(a *attempt) error {
	return fmt.Errorf("%s: no longer waiting for the lock: %w", o.path, context.Cause(a.ctx))
}

// tooLate is the error of a wait that took too long: that somebody else is in the way,
// if he is, or else what has kept us from knowing.
func (o *owned) tooLate(f *lockFlags) error {
	connected := o.env.Session.Info().Addr != ""
	who := ""
	if ahead := o.current().Ahead; ahead != nil || connected {
		who = o.inTheWay(connected)
	}
	why := "the servers did not answer"
	switch {
	case connected && who != "":
		return o.busy(f, fmt.Errorf("%w after %s: %s", errTimeUp, seconds(f.limit.Value), who))
	case !connected && who != "":
		why = "no connection; before that, " + who
	case !connected:
		why = "no connection"
	}
	return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusNoServer,
		Err: fmt.Errorf("%s: %w after %s: %s", o.path, errTimeUp, seconds(f.limit.Value), why)}}
}

// busy is the error of a lock that was not got because of somebody else.
func (o *owned) busy(f *lockFlags, err error) error {
	err = fmt.Errorf("%s: %w", o.path, err)
	return &commands.FinalError{Err: &commands.StatusError{Status: f.status, Err: err, Code: "NotLocked"}}
}

// held adds the holder to ErrBusy, if it is known.
func (o *owned) held(err error) error {
	if who := o.holder(""); who != "" {
		return fmt.Errorf("%w: %s", err, who)
	}
	return err
}

// inTheWay names the contender ahead, and the holder if that is another; it is empty if
// that cannot be told quickly.
func (o *owned) inTheWay(connected bool) string {
	ahead := o.current().Ahead
	if ahead == nil {
		if who := o.holder(""); who != "" {
			return "held by " + who
		}
		return ""
	}
	text := "waiting behind " + queue.Describe(ahead.Data, ahead.Since, ahead.Node)
	if connected {
		if who := o.holder(path.Base(ahead.Node)); who != "" {
			text += "; the lock is held by " + who
		}
	}
	return text
}

// holder describes the first contender of another session; it is empty if that cannot be
// told quickly. Behind a contender ahead it must be the holder, and another one.
func (o *owned) holder(ahead string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	q, err := queue.Read(ctx, ensemble{o.env.Session}, o.path)
	if err != nil {
		return ""
	}
	own := render.Hex(o.env.Session.Info().ID) // its place may not be given up yet
	others := slices.DeleteFunc(q.Contenders, func(c *queue.Contender) bool { return c.Session == own })
	if len(others) == 0 {
		return ""
	}
	first := others[0]
	alike := func(c *queue.Contender) bool { return c.State == first.State && slices.Contains(c.Nodes, ahead) }
	if ahead != "" && (slices.ContainsFunc(q.Contenders, alike) || !slices.Contains(q.Holders(), first.Nodes[0])) {
		return ""
	}
	return render.Safe(cmp.Or(first.Who, "an unknown client")) + " (" + strings.Join(first.Nodes, ", ") + ")"
}

// waitHere gets a lock while the person waits, and shows what for.
func (o *owned) waitHere(a *attempt, f *lockFlags) (*taken, error) {
	end := o.showWait()
	l, err := o.acquire(a, f)
	end()
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
		defer cancel()
		if o.drain(ctx) != nil {
			o.env.Screen.Note("lock " + o.path + ": zksh is removing its place in the queue in the background")
		}
	}
	return l, err
}

// drawEvery is how often the line of a wait is drawn anew.
const drawEvery = 200 * time.Millisecond

// settled is how long there must be no connection before a wait says so: a server that
// rejects the client closes the connection before the rejection is known.
const settled = time.Second

// showWait keeps one line on the terminal that says what is waited for, until
// end is called. Elsewhere that is remarked once. A terminal that takes nothing
// must not keep the lock from its use, so end waits for the last line, but not long.
func (o *owned) showWait() (end func()) {
	start := time.Now()
	done, drawn := make(chan struct{}), make(chan struct{})
	go func() { // until end, or until the terminal takes the line
		defer close(drawn)
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		live := o.env.Screen.Region(commands.Remarks)
		defer live.Close(false)
		columns, _ := live.Size()
		said := false
		var lost time.Time // since when there is no connection; zero while there is one
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			switch connecting := o.env.Session.State() == zkconn.StateConnecting; {
			case !connecting:
				lost = time.Time{}
			case lost.IsZero():
				lost = time.Now()
			}
			text := o.waitLine(time.Since(start), !lost.IsZero() && time.Since(lost) >= settled)
			switch {
			case text == "" || said:
			case columns > 0:
				_ = live.Draw(text) // where standard error is closed there is nobody to tell
			default:
				o.env.Screen.Note(text)
				said = true
			}
		}
	}()
	return func() {
		close(done)
		select {
		case <-drawn:
		case <-time.After(drawEvery):
		}
	}
}

// waitLater waits while the shell goes on, once there is a place in the queue. A
// lock that is got at once is answered at once.
func (o *owned) waitLater(ctx context.Context, a *attempt, f *lockFlags) error {
	placed, ended := a.placed, ctx.Done()
	type result struct {
		l   *taken
		err error
	}
	got := make(chan result)
	alone := make(chan struct{}) // closed when the command has returned
	defer close(alone)
	o.table.mu.Lock()
	begun := o.table.work(func() { // until it has the lock, or unlock or the end of the shell ends the attempt
		l, err := o.acquire(a, f)
		select {
		case got <- result{l, err}:
		case <-alone:
			o.announce(a, l, err)
		}
	})
	o.table.mu.Unlock()
	if !begun {
		o.with(o.refused)
		a.cancel(errLeaving)
		close(a.done)
		return errLeaving
	}
	for {
		select {
		case r := <-got:
			if r.err != nil {
				return r.err
			}
			return o.env.Screen.Print(o.answer(r.l))
		case <-placed:
			st := o.current()
			return o.env.Screen.Print(pending(o.path, a.kind.label, st.Node, st.Place))
		case <-ended:
			placed, ended = nil, nil // what was granted before is held, and said
			o.giveUp(context.Cause(ctx))
		}
	}
}

// announce tells how a wait in the background has ended, unless that was asked for.
func (o *owned) announce(a *attempt, l *taken, err error) {
	switch why := context.Cause(a.ctx); {
	case err == nil:
		columns, _ := o.env.Screen.Region(commands.Remarks).Size()
		o.say(o.answer(l).fitted(columns))
	case why != errWithdrawn && why != errLeaving || a.undone != nil:
		o.say("lock " + o.path + ": " + err.Error())
	}
}

// giveUp ends the attempt that is under way, if there is one, and returns it.
func (o *owned) giveUp(why error) *attempt {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	if o.attempt != nil {
		o.attempt.cancel(why)
	}
	return o.attempt
}

// errWithdrawn ends a wait at the person's request.
var errWithdrawn = errors.New("canceled by unlock")
