package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// waitGoal is how soon wait sees the change it waits for.
const waitGoal = 5 * time.Millisecond

// waits are the times to the end of a wait in another process: from the sending of the
// change that it waits for, and from the answer to that, which may come later.
type waits struct{ sent, done []time.Duration }

// measureWait has one zksh wait for what another one does; both are there already.
func (b *bench) measureWait(quick bool) (w waits, err error) {
	waiter, err := b.openTalk()
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, waiter.close()) }()
	changer, err := b.openTalk()
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, changer.close()) }()
	rounds := 200
	if quick {
		rounds = 10
	}
	if err := errors.Join(changer.say("create /waited"), changer.answer("Created /waited")); err != nil {
		return w, err
	}
	for i := range rounds {
		if err := waiter.say(fmt.Sprintf("wait --value %d /waited\necho %d", i, i)); err != nil {
			return w, err
		}
		time.Sleep(10 * time.Millisecond) // the wait is under way
		seen := make(chan error, 1)
		var at time.Time
		start := time.Now()
		if err := changer.say(fmt.Sprintf("set /waited %d\necho %d", i, i)); err != nil {
			return w, err
		}
		go func() { // received below
			err := waiter.answer(fmt.Sprint(i))
			at = time.Now()
			seen <- err
		}()
		changed := changer.answer(fmt.Sprint(i))
		done := time.Now()
		if err := errors.Join(changed, <-seen); err != nil {
			return w, err
		}
		w.sent, w.done = append(w.sent, at.Sub(start)), append(w.done, max(0, at.Sub(done)))
	}
	return w, errors.Join(changer.say("delete /waited\necho done"), changer.answer("done"))
}

// text is the section of the report.
func (w waits) text() string {
	slices.Sort(w.sent)
	slices.Sort(w.done)
	late := w.done[len(w.done)*95/100]
	return "\n## Waiting\n\nOne zksh waits for the value that another one sets; " + fmt.Sprint(len(w.sent)) + " times.\n\n" +
		table("zksh", figure{what: "from the sending of `set` to the end of `wait`, median", got: duration(median(w.sent))},
			atMost("from a change until `wait` sees it, 95 of 100", late, waitGoal))
}

// talk is zksh between two pipes.
type talk struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (b *bench) openTalk() (*talk, error) {
	t := &talk{cmd: exec.CommandContext(b.ctx, b.zksh, "-server", b.addr)}
	t.cmd.Env = b.environment()
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReader(out)
	return t, t.cmd.Start()
}

func (t *talk) say(line string) error {
	_, err := io.WriteString(t.in, line+"\n")
	return err
}

// answer wants this line next.
func (t *talk) answer(want string) error {
	got, err := t.out.ReadString('\n')
	if err == nil && strings.TrimSuffix(got, "\n") != want {
		err = fmt.Errorf("want the line %q from zksh, got %q", want, got)
	}
	return err
}

func (t *talk) close() error { return errors.Join(t.in.Close(), t.cmd.Wait()) }
