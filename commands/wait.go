package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/zkconn"
)

var waitCommand = &Command{
	Name: "wait", Group: "Watches", Args: "[--gone] [--value data] [--children n] [-w duration] path",
	Summary: "wait until a znode exists or meets a condition",
	Help: "wait exits with status 0 when the condition is met, or with 75 when the time limit (-w) is reached. It keeps " +
		"waiting if the connection is lost or the session expires.",
	Limits:   []string{"If you are not permitted to read the znode, wait polls it once per second, because newer ZooKeeper servers do not report its changes."},
	Examples: []string{"wait -w 30s /app/ready", "wait --gone /app/leader", "wait --children 3+ /app/workers"},
	Params:   []Param{pathParam},
	Flags: func(fs *pflag.FlagSet) Run {
		var w condition
		var limit Duration
		fs.BoolVar(&w.gone, "gone", false, "wait until the znode does not exist")
		value := fs.String("value", "", "wait until the znode has this `data`")
		FlagMayBeEmpty(fs, "value")
		fs.Var(funcValue{"number", w.children.set}, "children", "wait until the znode has `n` children; n+ means n or more")
		fs.VarP(&limit, "wait", "w", "wait at most this `duration`, such as 5s or 2m; a number without a unit means seconds; 0 checks once")
		return func(ctx context.Context, env *Env, args []string) error {
			if fs.Changed("value") {
				w.value = value
			}
			if w.gone && (w.value != nil || w.children.given) {
				return Misuse("--gone cannot be combined with --value or --children")
			}
			if err := zkconn.ValidatePath(args[0], false); err != nil {
				return err
			}
			w.path, w.lastSeen = args[0], "no server has answered"
			err := w.wait(ctx, env.Session, limit)
			if errors.Is(err, errTimeUp) {
				return &StatusError{Status: StatusTimeUp, Code: "TimeUp", Err: fmt.Errorf("%w waiting for %s: %s", errTimeUp, w.path, w.lastSeen)}
			}
			return env.answer(err, done("wait", w.path))
		}
	},
}

// errTimeUp is the error that wait returns when it reaches its time limit.
var errTimeUp = errors.New("timed out")

// condition is the condition that the command wait waits for. By default, the condition is that a
// znode exists.
type condition struct {
	path       string
	gone       bool
	value      *string // required data, or nil for any data
	children   number
	lastSeen   string // result of the last read, for the error message of a timeout
	unreadable bool   // whether the session has no permission to read the znode, so that the server may not report changes
}

// wait waits until the condition is met. If limit is given, wait waits at most that long.
func (w *condition) wait(ctx context.Context, s *zkconn.Session, limit Duration) error {
	once := limit.Given && limit.Value == 0
	// With the limit 0, check the condition only once, and wait for the server as long as other
	// commands do.
	if once {
		limit.Value = s.Info().Patience
	}
	if limit.Given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit.Value, errTimeUp)
		defer cancel()
	}
	if err := s.Ready(ctx); err != nil && !errors.Is(err, zkconn.SessionExpired) {
		return cmp.Or(context.Cause(ctx), err)
	}
	for at := s.Ensemble(); ; {
		p, err := at.Pin(ctx)
		if err == nil {
			err = w.waitInSession(ctx, p, once)
		}
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, zkconn.SessionExpired) {
			return err
		}
	}
}

// waitInSession waits until the condition is met, or until the session p ends. If once is true, it
// checks the condition only once.
func (w *condition) waitInSession(ctx context.Context, p *zkconn.Pinned, once bool) error {
	wake := make(chan zk.EventType, 1)
	defer p.Unwatch(w.path, wake)
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		changed := p.Changed() // closed on a reconnect, when data read on the old connection may be out of date
		met, err := w.check(ctx, p, wake)
		switch {
		case errors.Is(err, zkconn.ConnectionLoss):
			select {
			case <-changed:
			case <-time.After(pause): // the server returned the error, so the connection is still open
			case <-ctx.Done():
			}
			if err := p.Await(ctx); err != nil {
				return err
			}
			continue
		case err != nil || met:
			return err
		case once:
			return errTimeUp
		}
		var again <-chan time.Time
		if w.unreadable {
			again = time.After(longPause)
		}
		pause = firstPause
		select {
		case <-again:
		case <-wake:
		case <-changed:
		case <-p.Ended():
			return zkconn.SessionExpired
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Shortest and longest pause before wait reads a znode again on the same connection.
const (
	firstPause = 5 * time.Millisecond
	longPause  = time.Second
)

// check reads the znode once and sets a watch on it. The watch sends the event of the next change
// to wake.
func (w *condition) check(ctx context.Context, p *zkconn.Pinned, wake chan<- zk.EventType) (met bool, err error) {
	if w.value == nil && !w.children.given {
		return w.exists(ctx, p, wake)
	}
	for {
		met, err = w.compare(ctx, p, wake)
		if !errors.Is(err, zkconn.NoNode) {
			return met, err
		}
		if there, err := w.exists(ctx, p, wake); err != nil || !there {
			return false, err
		}
	}
}

func (w *condition) exists(ctx context.Context, p *zkconn.Pinned, wake chan<- zk.EventType) (met bool, err error) {
	err = zkconn.Exec(ctx, p, zkconn.Exists(w.path).Wake(wake))
	// ZooKeeper 3.8.4, 3.9.2 and later return NoAuth if the znode exists and the session has no
	// permission to read it.
	w.unreadable = errors.Is(err, zkconn.NoAuth)
	// Servers before 3.8.4 and 3.9.2 set the watch even without read permission. From 3.8 on,
	// however, they do not send the watch's event to such a session. Read the data to find out
	// whether the session has the permission.
	if err == nil && w.gone {
		_, _, unread := p.Get(ctx, w.path, nil)
		w.unreadable = errors.Is(unread, zkconn.NoAuth)
	}
	if err = ignore(err, zkconn.NoAuth); ignore(err, zkconn.NoNode) != nil {
		return false, err
	}
	w.lastSeen = "the znode exists"
	if err != nil {
		w.lastSeen = "the znode does not exist"
	}
	return (err != nil) == w.gone, nil
}

// compare reads the children and the data of a znode, if the condition depends on them, and reports
// whether they meet the condition. It returns a NoNode error if the znode does not exist.
func (w *condition) compare(ctx context.Context, p *zkconn.Pinned, wake chan<- zk.EventType) (met bool, err error) {
	if w.children.given {
		names, err := zkconn.Do(ctx, p, zkconn.GetChildren(w.path).Wake(wake))
		w.lastSeen = fmt.Sprintf("the znode has %d children", len(names))
		if err != nil || !w.children.fits(len(names)) {
			return false, err
		}
	}
	if w.value != nil {
		data, _, err := p.Get(ctx, w.path, wake)
		w.lastSeen = "the znode has a different value"
		if err != nil || string(data) != *w.value {
			return false, err
		}
	}
	return true, nil
}

// number is the value of a flag such as --children. It matches one number or, if more is true,
// that number and all higher ones.
type number struct {
	n           int
	more, given bool
}

func (n *number) fits(have int) bool { return have == n.n || n.more && have > n.n }

func (n *number) set(s string) error {
	digits, more := strings.CutSuffix(s, "+")
	v, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return fmt.Errorf("invalid number of children %q; write 3, or 3+ for 3 or more", s)
	}
	n.n, n.more, n.given = int(v), more, true
	return nil
}
