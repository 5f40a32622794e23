package shell

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/shell/exit"
)

// attended is a shell without a session, for tests of runInterruptible in virtual time. It also
// implements Locks.
type attended struct {
	*Shell
	keys       chan os.Signal
	out        *strings.Builder
	guardedFor time.Duration // how long a program runs under a lock
	begun      time.Time
}

// newAttended returns a new shell that prints to its field out.
func newAttended() *attended {
	a := &attended{keys: make(chan os.Signal, 1), out: &strings.Builder{}, begun: time.Now()}
	a.Shell = New(Config{Out: Output{W: a.out}, Err: Output{W: a.out}, Format: render.Text, Interrupts: a.keys, Locks: a})
	a.setPolicy(&interactive{s: a.Shell})
	return a
}

func (a *attended) Held() (held, gone int)                        { return 0, 0 }
func (a *attended) Paths() []string                               { return nil }
func (a *attended) Guarding() bool                                { return time.Since(a.begun) < a.guardedFor }
func (a *attended) Lost() error                                   { return nil }
func (a *attended) Release(context.Context) (_ []string, _ error) { return nil, nil }

const second = time.Second

// Work is cancelled and abandoned as documented, for each order of Ctrl-C, a second Ctrl-C, the end
// of the shell and the end of the work.
func TestAttend(t *testing.T) {
	over := errors.New("the work is over")
	for name, c := range map[string]struct {
		takes       time.Duration   // how long the work takes if it ignores its context
		heeds       bool            // the work returns when its context is done
		keys        []time.Duration // times of Ctrl-C
		quit        bool            // the first key is Ctrl-\
		ends        time.Duration   // time at which the shell ends; 0 for never
		guarded     time.Duration   // how long a program runs under a lock
		want        error           // error of runInterruptible
		after       time.Duration   // time at which runInterruptible returns
		interrupted bool            // runInterruptible reports Ctrl-C
		left        bool            // the work is abandoned
		asks        bool            // the shell asks for another Ctrl-C
	}{
		"ends by itself":                  {takes: 10 * second, want: over, after: 10 * second},
		"heeds Ctrl-C":                    {heeds: true, keys: []time.Duration{1 * second}, want: exit.ErrInterrupted, after: 1 * second, interrupted: true},
		"heeds Ctrl-\\":                   {heeds: true, keys: []time.Duration{1 * second}, quit: true, want: exit.ErrQuitKey, after: 1 * second, interrupted: true},
		"heeds the end of the shell":      {heeds: true, ends: 1 * second, want: exit.ErrTerminated, after: 1 * second},
		"ends late after Ctrl-C":          {takes: 3 * second, keys: []time.Duration{1 * second}, want: over, after: 3 * second, interrupted: true},
		"ends late after the shell":       {takes: 3 * second, ends: 1 * second, want: over, after: 3 * second},
		"ends after the question":         {takes: 9 * second, keys: []time.Duration{1 * second}, want: over, after: 9 * second, interrupted: true, asks: true},
		"Ctrl-C twice in a hurry":         {takes: 9 * second, keys: []time.Duration{1 * second, 2 * second, 3 * second}, want: over, after: 9 * second, interrupted: true, asks: true},
		"Ctrl-C after the question":       {takes: 9 * second, keys: []time.Duration{1 * second, 2 * second, 5 * second}, want: abandonedError{}, after: 5 * second, interrupted: true, left: true, asks: true},
		"the shell ends":                  {takes: 9 * second, ends: 1 * second, want: exit.ErrTerminated, after: 4 * second, left: true},
		"Ctrl-C, then the shell ends":     {takes: 9 * second, keys: []time.Duration{1 * second}, ends: 3 * second, want: exit.ErrTerminated, after: 6 * second, interrupted: true, left: true},
		"the shell ends at the question":  {takes: 20 * second, keys: []time.Duration{1 * second, 9 * second}, ends: 8 * second, want: exit.ErrTerminated, after: 11 * second, interrupted: true, left: true, asks: true},
		"the shell ends, then Ctrl-C":     {takes: 9 * second, keys: []time.Duration{2 * second, 3 * second}, ends: 1 * second, want: exit.ErrTerminated, after: 4 * second, interrupted: true, left: true},
		"Ctrl-C while guarded":            {takes: 60 * second, keys: []time.Duration{1 * second, 6 * second, 20 * second}, guarded: 60 * second, want: over, after: 60 * second, interrupted: true},
		"the shell ends while guarded":    {takes: 60 * second, ends: 1 * second, guarded: 60 * second, want: over, after: 60 * second},
		"stubborn once no longer guarded": {takes: 60 * second, ends: 1 * second, guarded: 20 * second, want: exit.ErrTerminated, after: 22 * second, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAttended()
				shell, end := context.WithCancelCause(context.Background())
				if c.ends > 0 {
					time.AfterFunc(c.ends, func() { end(exit.ErrTerminated) })
				}
				for i, at := range c.keys {
					sig := os.Interrupt
					if c.quit && i == 0 {
						sig = syscall.SIGQUIT
					}
					time.AfterFunc(at, func() { a.keys <- sig })
				}
				a.guardedFor = c.guarded
				interrupted, err := a.runInterruptible(shell, func(ctx context.Context) error {
					if c.heeds {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					time.Sleep(c.takes)
					return over
				})
				if took := time.Since(a.begun); !errors.Is(err, c.want) || took != c.after || interrupted != c.interrupted || a.abandoned != nil != c.left {
					t.Errorf("%v, interrupted %v, left %v, after %v; want %v, %v, %v, after %v",
						err, interrupted, a.abandoned != nil, took, c.want, c.interrupted, c.left, c.after)
				}
				if asks := strings.Contains(a.out.String(), "Ctrl-C again to exit zksh"); asks != c.asks {
					t.Errorf("printed %q", a.out)
				}
				end(nil)
				time.Sleep(time.Minute) // until abandoned work has ended and all timers have fired
			})
		})
	}
}

// A Ctrl-C that came before the work does not interrupt it.
func TestAttendForgetsAnEarlierKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttended()
		a.keys <- os.Interrupt
		interrupted, err := a.runInterruptible(context.Background(), func(ctx context.Context) error {
			time.Sleep(second)
			return ctx.Err()
		})
		if interrupted || err != nil {
			t.Errorf("interrupted %v, %v", interrupted, err)
		}
	})
}

// After the session is closed, the shell waits for abandoned work and reports its error. If the
// work does not stop in time, nothing that it prints later reaches the screen.
func TestSettle(t *testing.T) {
	over := errors.New("over")
	for takes, want := range map[time.Duration]error{4*second + abandonedTimeout/2: over, 20 * second: abandonedError{}} {
		synctest.Test(t, func(t *testing.T) {
			a := newAttended()
			shell, end := context.WithCancelCause(context.Background())
			time.AfterFunc(second, func() { end(exit.ErrTerminated) })
			_, err := a.runInterruptible(shell, func(context.Context) error {
				live := a.env.Screen.Region(commands.Remarks)
				time.Sleep(takes)
				a.env.Screen.Note("a note")
				a.env.Screen.Alert("an alert")
				_, asked := a.env.Screen.Ask(context.Background(), "sure?")
				return errors.Join(over, asked, live.Draw("x"), live.Close(true))
			})
			if !errors.Is(err, exit.ErrTerminated) || a.abandoned == nil {
				t.Fatalf("%v, left %v", err, a.abandoned)
			}
			if err := a.awaitAbandoned(); !errors.Is(err, want) {
				t.Errorf("%v; want %v", err, want)
			}
			time.Sleep(time.Minute)
			printed := a.out.String() != ""
			if wanted := want == over; printed != wanted {
				t.Errorf("after %v it printed %q", takes, a.out)
			}
			if want == over {
				return
			}
			if err := a.env.Screen.Print(plain("late\n")); err != errMuted {
				t.Errorf("a late answer: %v", err)
			}
		})
	}
}
