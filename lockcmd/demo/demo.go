// Package demo has the command lockdemo: the ways to lock that people write about,
// played side by side, with what each of them costs.
//
// This package is part of the program zksh and may change at any time.
package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
)

// Command is lockdemo.
func Command() *commands.Command {
	names := make([]string, len(schemes))
	for i, s := range schemes {
		names[i] = s.name
	}
	return &commands.Command{
		Name: "lockdemo", Group: "Locks", Effect: commands.Writes,
		Args: "[scheme…] [-n sizes] [--hold duration] [--poll duration] [--readers count] [--classic] [--step] [--slow factor]" +
			" [--kill-holder] [--kill-middle] [--record file] [--svg file] [-y]",
		Summary: "run lock recipes side by side and compare their cost",
		Help: "The schemes are " +
			strings.Join(names, ", ") +
			". Without an argument, lockdemo runs all of them. Each contender has a separate session. One contender holds " +
			"the lock while all others wait; the clock starts when it releases the lock.\n\n" +
			"lockdemo counts the frames on the wire, reads the servers' own counters, and compares both with the recipe's " +
			"prediction. The exit status is 1 if these three disagree, or if two clients that exclude each other held the " +
			"lock at the same time.\n\n" +
			"In a sandbox, lockdemo starts immediately. On other servers, it asks for confirmation at the prompt, and " +
			"needs -y elsewhere. It works below a znode that it creates, and deletes this znode afterwards.",
		Limits:   []string{"By default, a server accepts 60 connections from one address, so -n can be at most 57, except in a sandbox."},
		Examples: []string{"lockdemo parent predecessor -n 20", "lockdemo --step -n 5 naive", "lockdemo --svg herd.svg -n 20 naive"},
		Params:   slices.Repeat([]commands.Param{{Name: "scheme", Kind: commands.Choice, Words: names, Optional: true}}, len(names)),
		Flags: func(fs *pflag.FlagSet) commands.Run {
			w := declare(fs)
			return func(ctx context.Context, env *commands.Env, args []string) error {
				p, err := w.plan(env, args)
				if err != nil {
					return err
				}
				sum, err := p.perform(ctx, env)
				if err != nil || len(sum.Results) == 0 {
					return err
				}
				return errors.Join(env.Screen.Print(sum), sum.verdict())
			}
		},
	}
}

// words are the flags as they are typed, and what they mean.
type words struct {
	fs    *pflag.FlagSet
	rules rules
	sizes string
	slow  float64
	step  bool
	yes   bool

	record, svg string
}

// declare declares the command's flags.
func declare(fs *pflag.FlagSet) *words {
	w := &words{fs: fs}
	fs.StringVarP(&w.sizes, "contenders", "n", "5,20,50", "run with this `number` of contenders; separate several numbers with commas")
	fs.DurationVar(&w.rules.hold, "hold", 5*time.Millisecond, "hold the lock for this `duration`")
	fs.DurationVar(&w.rules.poll, "poll", 100*time.Millisecond, "let contenders that poll check the lock once per `duration`")
	fs.IntVar(&w.rules.readers, "readers", -1, "make this `count` of the contenders for a shared lock readers; -1 means three out of four")
	fs.BoolVar(&w.rules.classic, "classic", false, "play the scene of the first article: 20 threads, 2 s of work, one check per second, and the article's flaws")
	fs.BoolVar(&w.step, "step", false, "pass the lock on only when you press Enter")
	fs.Float64Var(&w.slow, "slow", 1, "slow the scenes down by this `factor`")
	fs.BoolVar(&w.rules.killHolder, "kill-holder", false, "in the middle of the scene, kill the client that holds the lock")
	fs.BoolVar(&w.rules.killMiddle, "kill-middle", false, "kill the client in the middle of the queue")
	fs.StringVar(&w.record, "record", "", "record the lanes in this `file`, for asciinema")
	fs.StringVar(&w.svg, "svg", "", "save the lanes as a picture in this `file`")
	commands.FlagFile(fs, "record")
	commands.FlagFile(fs, "svg")
	fs.BoolVarP(&w.yes, "yes", "y", false, "do not ask for confirmation")
	return w
}

// plan is what the words mean.
func (w *words) plan(env *commands.Env, names []string) (*plan, error) {
	p := &plan{rules: w.rules, yes: w.yes, record: w.record, svg: w.svg, schemes: chosen(names)}
	if w.rules.classic {
		w.beClassic(p)
	}
	for word := range strings.SplitSeq(w.sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > maxContenders {
			return nil, commands.Misuse("-n: invalid number of contenders %q: must be between 1 and %d", word, maxContenders)
		}
		if !slices.Contains(p.sizes, n) {
			p.sizes = append(p.sizes, n)
		}
	}
	if w.slow <= 0 || p.hold < 0 || p.poll <= 0 {
		return nil, commands.Misuse("--slow and --poll must be greater than zero, and --hold must not be negative")
	}
	if p.hold, p.poll = scale(p.hold, w.slow), scale(p.poll, w.slow); w.slow > 1 {
		p.moment = p.hold / 2
	}
	p.timeout = env.Session.Info().Timeout
	if p.killHolder || p.killMiddle {
		p.timeout = min(p.timeout, deathIsSeen)
	}
	if w.step {
		if p.step = enter(env); p.step == nil {
			return nil, commands.Misuse("--step requires a standard input, from which lockdemo reads Enter")
		}
	}
	return p, nil
}

// deathIsSeen is how long the sessions last where somebody is killed: the servers
// take longer to see it if that is too short for them.
const deathIsSeen = 4 * time.Second

// beClassic sets what was not given as the first article has it.
func (w *words) beClassic(p *plan) {
	if !w.fs.Changed("hold") {
		p.hold = 2 * time.Second
	}
	if !w.fs.Changed("poll") {
		p.poll = time.Second
	}
	if !w.fs.Changed("contenders") {
		w.sizes = "20"
	}
}

// maxContenders is more than anybody can look at.
const maxContenders = 1000

// chosen are the schemes of these names; without any they are all.
func chosen(names []string) []scheme {
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

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// enter waits for the person to press Enter.
func enter(env *commands.Env) func(context.Context) error {
	if env.Mode == commands.ByHand {
		return func(ctx context.Context) error {
			_, err := env.Screen.Ask(ctx, "press Enter to continue: ")
			return err
		}
	}
	if env.Stdin == nil {
		return nil
	}
	lines := bufio.NewReader(env.Stdin)
	pressed, reading := make(chan error, 1), false
	return func(ctx context.Context) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		env.Screen.Alert("press Enter to continue")
		if !reading {
			reading = true
			go func() { // ends with Enter, or with the program: a read cannot be cancelled
				_, err := lines.ReadString('\n')
				pressed <- err
			}()
		}
		select {
		case err := <-pressed:
			reading = false
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// plan is what is asked for.
type plan struct {
	rules
	schemes []scheme
	sizes   []int // numbers of contenders
	yes     bool  // do not ask

	record, svg string // files; empty: none
}

// perform plays all scenes, if it may, and returns what they have cost.
func (p *plan) perform(ctx context.Context, env *commands.Env) (*summary, error) {
	if err := env.Session.Ready(ctx); err != nil {
		return nil, err
	}
	if may, err := p.mayUse(ctx, env); err != nil || !may {
		return &summary{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st := &stage{rules: p.rules, env: env, root: "/zksh-lockdemo-" + strings.ToLower(rand.Text()[:8])}
	var recording *cast
	if p.record != "" {
		var err error
		if recording, err = record(p.record); err != nil {
			return nil, err
		}
	}
	st.show = openShow(env.Screen, recording, cancel)
	sum, err := p.playAll(ctx, st)
	sum.sort()
	err = errors.Join(err, st.strike(), st.show.close(), recording.close(func(w io.Writer) error { return sum.FitText(w, castColumns) }))
	if err == nil && p.svg != "" {
		err = draw(p.svg, st.show.boards)
	}
	return sum, err
}

// mayUse asks before anything is done to servers that are not for playing.
func (p *plan) mayUse(ctx context.Context, env *commands.Env) (bool, error) {
	addr := env.Session.Info().Addr
	text, err := env.Session.FourLetter(ctx, addr, "srvr")
	if p.yes || err == nil && strings.Contains(text, "zksh-sandbox") {
		return true, nil
	}
	if env.Mode != commands.ByHand {
		return false, commands.Misuse("%s is not a sandbox; to run lockdemo there, add --yes: lockdemo creates a temporary znode, works only below it, and deletes it afterwards", addr)
	}
	yes, err := env.Screen.Ask(ctx, fmt.Sprintf("%s is not a sandbox; open %d sessions there and acquire locks below a temporary znode? [y/N] ",
		addr, slices.Max(p.sizes)+1))
	if err == nil && !yes {
		env.Screen.Note("nothing was done")
	}
	return yes, err
}

// playAll plays each scheme with each number of contenders.
func (p *plan) playAll(ctx context.Context, st *stage) (*summary, error) {
	sum := &summary{}
	if err := st.open(ctx, slices.Max(p.sizes)+1); err != nil { // before anything begins: there may be too many
		return sum, err
	}
	if err := st.build(ctx, st.root); err != nil {
		return sum, err
	}
	for _, s := range p.schemes {
		for _, n := range p.sizes {
			if err := st.open(ctx, n+1); err != nil {
				return sum, err
			}
			r, err := st.newScene(s, n).play(ctx)
			if err != nil {
				return sum, fmt.Errorf("%s n=%d: %w", s.name, n, err)
			}
			sum.Results = append(sum.Results, r)
		}
	}
	return sum, nil
}
