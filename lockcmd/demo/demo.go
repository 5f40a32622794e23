// Package demo implements the command lockdemo. This command runs several lock recipes from
// articles and libraries, and compares their cost.
//
// A scheme is one lock recipe, and a scene is one run of a scheme with some number of contenders.
// Begin reading with Command and scene.run. Contenders record events in the timeline of their scene.
// The lanes on the terminal, the printed lines and the result are derived from it. A wireCounter
// counts requests and notifications, and a formula predicts them.
//
// This package is part of the program zksh and may change at any time.
package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
)

// Command returns the definition of the command lockdemo.
func Command() *commands.Command {
	names := make([]string, len(schemes))
	for i, s := range schemes {
		names[i] = s.name
	}
	return &commands.Command{
		Name: "lockdemo", Group: "Locks", Effect: commands.Writes,
		Args:    "[recipe…] [-n sizes] [--hold duration] [--step] [--kill-holder]",
		Summary: "run lock recipes side by side and compare their cost",
		Help: "The recipes are " + strings.Join(names, ", ") + ". Without an argument, lockdemo runs all of them. " +
			"Each contender has a separate session. One client holds the lock while all contenders wait; the " +
			"measurement starts when it releases the lock.\n\n" +
			"On a terminal, lockdemo draws a lane for each contender, and each contender holds the lock for 300 ms, " +
			"so that people can follow. Without -n, you see the recipes with 5 contenders; lockdemo then runs them " +
			"with 20 and 50 at full speed and shows only their cost. Elsewhere, lockdemo prints each event and holds " +
			"the lock for 5 ms.\n\n" +
			"lockdemo counts the requests on the wire, and compares them with the recipe's formula. The exit status " +
			"is 1 if they differ, or if two clients that exclude each other held the lock at the same time.\n\n" +
			"In a sandbox, lockdemo starts immediately. On other servers, it asks for confirmation on a terminal, and " +
			"needs the option --yes of zksh elsewhere. It works below a znode that it creates, and deletes this " +
			"znode afterwards.",
		Limits: []string{
			"By default, a server accepts 60 connections from one address, so -n can be at most 57, except in a sandbox.",
		},
		Examples: []string{"lockdemo parent predecessor -n 8", "lockdemo --step -n 5 naive"},
		Params: slices.Repeat([]commands.Param{
			{Name: "recipe", Kind: commands.Choice, Words: names, Optional: true},
		}, len(names)),
		Flags: func(fs *pflag.FlagSet) commands.Run {
			w := declare(fs)
			return func(ctx context.Context, env *commands.Env, args []string) error {
				p, err := w.plan(env, args)
				if err != nil {
					return err
				}
				sum, err := p.run(ctx, env)
				if err != nil || len(sum.Results) == 0 {
					return err
				}
				return errors.Join(env.Screen.Print(sum), sum.verdict())
			}
		},
	}
}

// flagValues contains the values of lockdemo's flags.
type flagValues struct {
	fs         *pflag.FlagSet
	sizes      string
	hold       time.Duration
	step       bool
	killHolder bool
}

// declare adds lockdemo's flags to fs. The result contains their values once fs has been parsed.
func declare(fs *pflag.FlagSet) *flagValues {
	w := &flagValues{fs: fs}
	fs.StringVarP(&w.sizes, "contenders", "n", "5,20,50",
		"run with this `number` of contenders; separate several numbers with commas")
	fs.DurationVar(&w.hold, "hold", 0,
		"hold the lock for this `duration`; the default is 300ms on a terminal, and 5ms elsewhere")
	fs.BoolVar(&w.step, "step", false, "pass the lock on only when you press Enter")
	fs.BoolVar(&w.killHolder, "kill-holder", false, "in the middle of the scene, kill the client that holds the lock")
	return w
}

const (
	slowHold  = 300 * time.Millisecond // how long a contender holds the lock in a scene that people watch
	quickHold = 5 * time.Millisecond   // the same in other scenes
)

// A plan contains the scenes to run, and what they have in common.
type plan struct {
	scenes   []setting // in this order
	most     int       // maximum number of contenders
	terminal bool      // whether scenes are drawn as lanes
	timeout  time.Duration
	// ask asks the user a question, and reports whether the answer is yes. It is nil if there is
	// no input to read.
	ask func(ctx context.Context, question string) (yes bool, err error)
}

// plan returns the scenes to run. It returns an error if a flag or the name of a scheme is
// invalid.
func (w *flagValues) plan(env *commands.Env, names []string) (*plan, error) {
	columns, _ := env.Screen.Region(commands.Answers).Size()
	p := &plan{terminal: columns > 0, timeout: env.Session.Info().Timeout, ask: asker(env)}
	live := setting{shown: true, hold: quickHold, killHolder: w.killHolder}
	if p.terminal {
		live.hold, live.opening = slowHold, slowHold
	}
	if w.fs.Changed("hold") {
		live.hold = w.hold
	}
	if live.hold < 0 {
		return nil, commands.Misuse("--hold must not be negative")
	}
	if w.killHolder {
		p.timeout = min(p.timeout, killSessionTimeout)
	}
	if w.step {
		if p.ask == nil {
			return nil, commands.Misuse("--step requires a standard input, from which lockdemo reads Enter")
		}
		live.step = func(ctx context.Context) error {
			_, err := p.ask(ctx, "Enter: next step, Ctrl-C: end")
			return err
		}
	}
	for word := range strings.SplitSeq(w.sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > maxContenders {
			return nil, commands.Misuse("-n: invalid number of contenders %q: must be between 1 and %d", word, maxContenders)
		}
		if slices.ContainsFunc(p.scenes, func(s setting) bool { return s.n == n }) {
			continue
		}
		s := live
		if p.terminal && p.most > 0 && !w.fs.Changed("contenders") { // the larger sizes only count
			s = setting{hold: quickHold}
		}
		p.most = max(p.most, n)
		for _, scheme := range selectSchemes(names) {
			s.scheme, s.n = scheme, n
			p.scenes = append(p.scenes, s)
		}
	}
	return p, nil
}

// killSessionTimeout is the maximum session timeout that contenders request if one of them will
// be killed. It is short, so that the servers soon expire the killed client's session. A server
// may still choose a longer timeout.
const killSessionTimeout = 4 * time.Second

// maxContenders is the maximum number of contenders that -n accepts. With more, the output would
// be unreadable.
const maxContenders = 1000

// selectSchemes returns the schemes with the given names, or all schemes if names is empty.
func selectSchemes(names []string) []scheme {
	if len(names) == 0 {
		return schemes
	}
	var list []scheme
	for _, s := range schemes {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, s.name) }) {
			list = append(list, s)
		}
	}
	return list
}

// asker returns a function that asks the user a question, and reports whether the answer is yes. If
// there is no input to read, it returns nil.
func asker(env *commands.Env) func(ctx context.Context, question string) (yes bool, err error) {
	if env.Mode == commands.ByHand {
		return func(ctx context.Context, question string) (bool, error) { return env.Screen.Ask(ctx, question+" ") }
	}
	if env.Stdin == nil {
		return nil
	}
	in := bufio.NewReader(env.Stdin)
	return func(ctx context.Context, question string) (yes bool, err error) {
		env.Screen.Alert(question)
		var answer string
		read := make(chan error, 1)
		// This goroutine ends only when the user presses Enter or the program exits, because a
		// blocked read cannot be canceled.
		go func() {
			var err error
			answer, err = in.ReadString('\n')
			read <- err
		}()
		select {
		case err := <-read:
			answer = strings.ToLower(strings.TrimSpace(answer))
			return answer == "y" || answer == "yes", err
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// run asks for confirmation, runs all scenes of the plan and returns their costs.
func (p *plan) run(ctx context.Context, env *commands.Env) (*summary, error) {
	if err := env.Session.Ready(ctx); err != nil {
		return nil, err
	}
	if may, err := p.confirm(ctx, env); err != nil || !may {
		return &summary{}, err
	}
	p.announce(env)
	st := newStage(env, p.timeout)
	sum, err := p.runScenes(ctx, st)
	sum.sort()
	return sum, errors.Join(err, st.cleanUp())
}

// confirm reports whether lockdemo may create znodes on the servers. It asks the user, unless the
// server is a sandbox or the user has confirmed this in advance (--yes).
func (p *plan) confirm(ctx context.Context, env *commands.Env) (bool, error) {
	addr := env.Session.Info().Addr
	text, err := env.Session.FourLetter(ctx, addr, "srvr")
	if env.Yes || err == nil && strings.Contains(text, "zksh-sandbox") {
		return true, nil
	}
	if env.Mode != commands.ByHand && (p.ask == nil || !env.Streams.OnTerminal()) {
		return false, commands.Misuse("%s is not a sandbox; to run lockdemo there, write zksh --yes lockdemo:"+
			" it creates a temporary znode, works only below it, and deletes it afterwards", addr)
	}
	yes, err := p.ask(ctx, fmt.Sprintf("%s is not a sandbox; open %d sessions there and acquire locks below a temporary"+
		" znode? [y/N]", addr, p.most+1))
	if err == nil && !yes {
		env.Screen.Note("nothing was done")
	}
	return yes, err
}

// sceneBreak is the time for which the audience can look at a finished scene.
const sceneBreak = time.Second

// announce says in advance how long the demonstration will take, if it takes long.
func (p *plan) announce(env *commands.Env) {
	const overhead = 100 * time.Millisecond // of each scene, for example to queue
	var total time.Duration
	scenes, quick := 0, 0
	for _, s := range p.scenes {
		if s.step != nil {
			return
		}
		total += s.expectedTime(p.timeout) + overhead
		if s.shown {
			scenes++
		} else {
			quick++
		}
	}
	if p.terminal {
		total += time.Duration(scenes) * sceneBreak
	}
	if total < 5*time.Second {
		return
	}
	text := fmt.Sprintf("this takes about %.0f s", total.Round(5*time.Second).Seconds())
	if total >= 2*time.Minute {
		text = fmt.Sprintf("this takes about %.0f minutes", total.Minutes())
	}
	switch {
	case quick > 0:
		text += fmt.Sprintf(": %d scenes that you can follow, and then %d at full speed", scenes, quick)
	case scenes > 1:
		text += fmt.Sprintf(": %d scenes", scenes)
	}
	env.Screen.Note(text)
}

// runScenes runs each scene of the plan.
func (p *plan) runScenes(ctx context.Context, st *stage) (*summary, error) {
	sum := &summary{}
	// Before the first scene, check that the servers accept enough sessions.
	if err := st.open(ctx, p.most+1); err != nil {
		return sum, err
	}
	for _, s := range p.scenes {
		if err := st.open(ctx, s.n+1); err != nil {
			return sum, err
		}
		r, err := st.newScene(s).run(ctx)
		if err != nil {
			return sum, fmt.Errorf("%s n=%d: %w", s.scheme.name, s.n, err)
		}
		sum.Results = append(sum.Results, r)
		if p.terminal && s.shown && s.step == nil {
			if err := pause(ctx, sceneBreak); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}
