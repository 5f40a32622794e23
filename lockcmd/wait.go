package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// errTimeUp is the end of -w.
var errTimeUp = errors.New("timed out")

// notAcquired returns the error of an attempt that failed with err; ctx is that of the
// request, and ahead the contender that it waited for.
func notAcquired(ctx context.Context, env *commands.Env, path string, ahead *zklock.Ahead, a *attempt, f *lockFlags, err error) error {
	switch {
	case errors.Is(err, zklock.ErrBusy):
		if who := holder(env, path, ""); who != "" {
			err = fmt.Errorf("%w: %s", err, who)
		}
		return busy(path, f, err)
	case errors.As(err, new(*zkconn.Error)): // it says why, whatever time it is
	case context.Cause(ctx) == errTimeUp:
		return tooLate(env, path, ahead, f)
	case a.ctx.Err() != nil && !f.try:
		err = notWaited(path, a)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return &commands.FinalError{Err: err}
}

// notWaited is the error of an attempt that was ended.
func notWaited(path string, a *attempt) error {
	return fmt.Errorf("%s: no longer waiting for the lock: %w", path, context.Cause(a.ctx))
}

// tooLate is the error of a wait that took too long: that somebody else is in the way,
// if he is, or else what has kept us from knowing.
func tooLate(env *commands.Env, path string, ahead *zklock.Ahead, f *lockFlags) error {
	connected := env.Session.Info().Addr != ""
	who := ""
	if ahead != nil || connected {
		who = inTheWay(env, path, ahead, connected)
	}
	why := "the servers did not answer"
	switch {
	case connected && who != "":
		return busy(path, f, fmt.Errorf("%w after %s: %s", errTimeUp, seconds(f.limit.Value), who))
	case !connected && who != "":
		why = "no connection; before that, " + who
	case !connected:
		why = "no connection"
	}
	return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusNoServer,
		Err: fmt.Errorf("%s: %w after %s: %s", path, errTimeUp, seconds(f.limit.Value), why)}}
}

// busy is the error of a lock that was not got because of somebody else.
func busy(path string, f *lockFlags, err error) error {
	err = fmt.Errorf("%s: %w", path, err)
	return &commands.FinalError{Err: &commands.StatusError{Status: f.status, Err: err, Code: "NotLocked"}}
}

// inTheWay names the contender ahead, and the holder if that is another; it is empty if
// that cannot be told quickly.
func inTheWay(env *commands.Env, dir string, ahead *zklock.Ahead, connected bool) string {
	if ahead == nil {
		if who := holder(env, dir, ""); who != "" {
			return "held by " + who
		}
		return ""
	}
	text := "waiting behind " + queue.Describe(ahead.Data, ahead.Since, ahead.Node)
	if connected {
		if who := holder(env, dir, path.Base(ahead.Node)); who != "" {
			text += "; the lock is held by " + who
		}
	}
	return text
}

// holder describes the first contender of another session; it is empty if that cannot be
// told quickly. Behind a contender ahead it must be the holder, and another one.
func holder(env *commands.Env, dir, ahead string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	q, err := queue.Read(ctx, ensemble{env.Session}, dir)
	if err != nil {
		return ""
	}
	own := render.Hex(env.Session.Info().ID) // its place may not be given up yet
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

// drawEvery is how often the line of a wait is drawn anew.
const drawEvery = 200 * time.Millisecond

// settled is how long there must be no connection before a wait says so: a server that
// rejects the client closes the connection before the rejection is known.
const settled = time.Second

// showWait keeps one line on the terminal that says what is waited for, until
// end is called. Elsewhere that is remarked once. A terminal that takes nothing
// must not keep the lock from its use, so end waits for the last line, but not long.
func showWait(env *commands.Env, o *owned) (end func()) {
	start := time.Now()
	done, drawn := make(chan struct{}), make(chan struct{})
	go func() { // until end, or until the terminal takes the line
		defer close(drawn)
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		live := env.Screen.Region(commands.Remarks)
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
			switch connecting := env.Session.State() == zkconn.StateConnecting; {
			case !connecting:
				lost = time.Time{}
			case lost.IsZero():
				lost = time.Now()
			}
			text := waitLine(o.path, o.current(), time.Since(start), !lost.IsZero() && time.Since(lost) >= settled)
			switch {
			case text == "" || said:
			case columns > 0:
				_ = live.Draw(text) // where standard error is closed there is nobody to tell
			default:
				env.Screen.Note(text)
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
func waitLater(ctx context.Context, o *owned, a *attempt, f *lockFlags) error {
	placed, ended := a.placed, ctx.Done()
	var l *taken
	var err error
	got := make(chan struct{})
	alone := make(chan struct{}) // closed when the command has returned
	defer close(alone)
	wait := func() { // until it has the lock, or unlock or the end of the shell ends the attempt
		l, err = o.acquire(a, f)
		select {
		case got <- struct{}{}:
		case <-alone:
			announce(o, a, l, err)
		}
	}
	begun := false
	if o.with(func() { begun = o.table.work(wait) }); !begun {
		o.with(o.refused)
		a.cancel(errLeaving)
		close(a.done)
		return errLeaving
	}
	for {
		select {
		case <-got:
			if err != nil {
				return err
			}
			return o.env.Screen.Print(l.answer(o.path))
		case <-placed:
			st := o.current()
			return o.env.Screen.Print(pending(o.path, a.kind.label, st.Node, st.Place))
		case <-ended:
			placed, ended = nil, nil // what was granted before is held, and said
			o.with(func() { o.interrupt(context.Cause(ctx)) })
		}
	}
}

// announce tells how a wait in the background has ended, unless that was asked for.
func announce(o *owned, a *attempt, l *taken, err error) {
	switch why := context.Cause(a.ctx); {
	case err == nil:
		columns, _ := o.env.Screen.Region(commands.Remarks).Size()
		o.say(l.answer(o.path).fitted(columns))
	case why != errWithdrawn && why != errLeaving || a.undone != nil:
		o.say("lock " + o.path + ": " + err.Error())
	}
}

// errWithdrawn ends a wait at the person's request.
var errWithdrawn = errors.New("canceled by unlock")
