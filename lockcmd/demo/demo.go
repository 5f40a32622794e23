// Package demo implements the command lockdemo. This command runs several lock recipes from
// articles and libraries, and compares their cost.
//
// A scheme is one lock recipe, and a scene is one run of a scheme with some number of
// contenders. Begin reading with Command and scene.run. Each recipe has its own file, such as
// naive.go. The referee checks in which order the contenders hold the lock. A wireCounter counts
// frames and notifications, an audit compares these numbers with the servers' own counters, and
// a formula predicts them.
//
// This package is part of the program zksh and may change at any time.
package demo

import (
	"bufio"
	"context"
	"crypto/rand"
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
		Args: "[scheme…] [-n sizes] [--hold duration] [--poll duration] [--readers count] [--classic] [--step] [--slow factor] [--fast]" +
			" [--kill-holder] [--kill-middle] [--svg file]",
		Summary: "run lock recipes side by side and compare their cost",
		Help: "The schemes are " +
			strings.Join(names, ", ") +
			". Without an argument, lockdemo runs all of them. Each contender has a separate session. One contender holds " +
			"the lock while all others wait; the clock starts when it releases the lock.\n\n" +
			"lockdemo counts the frames on the wire, reads the servers' own counters, and compares both with the recipe's " +
			"prediction. The exit status is 1 if these three disagree, or if two clients that exclude each other held the " +
			"lock at the same time.\n\n" +
			"On a terminal, lockdemo shows each scene in slow motion once it is over, for about eight seconds. The contenders " +
			"themselves always run at full speed, so the times are not those of the slow motion. In a window of at least 160 " +
			"columns, lockdemo shows two schemes beside each other.\n\n" +
			"In a sandbox, lockdemo starts immediately. On other servers, it asks for confirmation on a terminal, and " +
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
	fs    *pflag.FlagSet
	rules rules
	sizes string
	step  bool
	slow  float64
	fast  bool

	svg string
}

// declare adds lockdemo's flags to fs. The result contains their values once fs has been parsed.
func declare(fs *pflag.FlagSet) *flagValues {
	w := &flagValues{fs: fs}
	fs.StringVarP(&w.sizes, "contenders", "n", "5,20,50", "run with this `number` of contenders; separate several numbers with commas")
	fs.DurationVar(&w.rules.hold, "hold", 5*time.Millisecond, "hold the lock for this `duration`")
	fs.DurationVar(&w.rules.poll, "poll", 100*time.Millisecond, "let contenders that poll check the lock once per `duration`")
	fs.IntVar(&w.rules.readers, "readers", -1, "make this `count` of the contenders for a shared lock readers; -1 means three out of four")
	fs.BoolVar(&w.rules.classic, "classic", false, "play the scene of the first article: 20 threads, 2 s of work, one check per second, and the article's flaws")
	fs.BoolVar(&w.step, "step", false, "pass the lock on only when you press Enter")
	fs.Float64Var(&w.slow, "slow", 0, "show each scene slowed down by this `factor`, once it is over")
	fs.BoolVar(&w.fast, "fast", false, "show each scene while it runs, at full speed")
	fs.BoolVar(&w.rules.killHolder, "kill-holder", false, "in the middle of the scene, kill the client that holds the lock")
	fs.BoolVar(&w.rules.killMiddle, "kill-middle", false, "kill the client in the middle of the queue")
	fs.StringVar(&w.svg, "svg", "", "save the lanes as a picture in this `file`")
	commands.FlagFile(fs, "svg")
	return w
}

// plan returns the scenes to run. It returns an error if a flag or the name of a scheme is
// invalid.
func (w *flagValues) plan(env *commands.Env, names []string) (*plan, error) {
	p := &plan{rules: w.rules, slow: w.slow, fast: w.fast, svg: w.svg, schemes: selectSchemes(names)}
	if w.rules.classic {
		w.setClassicDefaults(p)
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
	if w.slow < 0 || w.slow == 0 && w.fs.Changed("slow") || p.hold < 0 || p.poll <= 0 {
		return nil, commands.Misuse("--slow and --poll must be greater than zero, and --hold must not be negative")
	}
	if w.slow > 0 && (w.fast || w.step) {
		return nil, commands.Misuse("--slow cannot be combined with --fast or --step")
	}
	p.timeout = env.Session.Info().Timeout
	if p.killHolder || p.killMiddle {
		p.timeout = min(p.timeout, killSessionTimeout)
	}
	if w.step {
		if p.step = enterPrompt(env); p.step == nil {
			return nil, commands.Misuse("--step requires a standard input, from which lockdemo reads Enter")
		}
	}
	return p, nil
}

// killSessionTimeout is the maximum session timeout that contenders request if one of them will
// be killed. It is short, so that the servers soon expire the killed client's session. A server
// may still choose a longer timeout.
const killSessionTimeout = 4 * time.Second

// setClassicDefaults sets flags to the values used in the first article. It does not change flags
// that the user has set.
func (w *flagValues) setClassicDefaults(p *plan) {
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

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

const enterQuestion = "Enter: next step, Ctrl-C: end"

// enterPrompt returns a function that waits until the user presses Enter. If there is no input to
// read, it returns nil.
func enterPrompt(env *commands.Env) func(context.Context) error {
	if env.Mode == commands.ByHand {
		return func(ctx context.Context) error {
			_, err := env.Screen.Ask(ctx, enterQuestion+" ")
			return err
		}
	}
	if env.Stdin == nil {
		return nil
	}
	ask := lineReader(env)
	return func(ctx context.Context) error {
		_, err := ask(ctx, enterQuestion)
		return err
	}
}

// lineReader returns a function that prints a question and reads a line of standard input. The
// function may be called again after ctx was canceled.
func lineReader(env *commands.Env) func(ctx context.Context, question string) (string, error) {
	type line struct {
		text string
		err  error
	}
	in := bufio.NewReader(env.Stdin)
	read, reading := make(chan line, 1), false
	return func(ctx context.Context, question string) (string, error) {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		env.Screen.Alert(question)
		if !reading {
			reading = true
			// This goroutine ends only when the user presses Enter or the program exits, because a
			// blocked read cannot be canceled.
			go func() {
				text, err := in.ReadString('\n')
				read <- line{text, err}
			}()
		}
		select {
		case l := <-read:
			reading = false
			return l.text, l.err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// A plan contains the scenes to run, and their settings.
type plan struct {
	rules
	schemes []scheme
	sizes   []int // numbers of contenders to run each scheme with
	slow    float64
	fast    bool

	svg string // name of the picture, or empty for none
}

// run asks for confirmation, runs all scenes of the plan and returns their costs.
func (p *plan) run(ctx context.Context, env *commands.Env) (*summary, error) {
	if err := env.Session.Ready(ctx); err != nil {
		return nil, err
	}
	if may, err := p.confirm(ctx, env); err != nil || !may {
		return &summary{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st := &runner{rules: p.rules, env: env, root: "/zksh-lockdemo-" + strings.ToLower(rand.Text()[:8])}
	columns, _ := env.Screen.Region(commands.Answers).Size()
	pc := newPace(p, columns > 0)
	p.announce(env, pc)
	st.display = openDisplay(env.Screen, pc, cancel)
	sum, err := p.runScenes(ctx, st)
	sum.sort()
	err = errors.Join(err, st.cleanUp(), st.display.close())
	if err == nil && p.svg != "" {
		err = saveSVG(p.svg, st.display.timelines)
	}
	return sum, err
}

// confirm reports whether lockdemo may create znodes on the servers. It asks the user, unless the
// server is a sandbox or the user has confirmed this in advance (--yes).
func (p *plan) confirm(ctx context.Context, env *commands.Env) (bool, error) {
	addr := env.Session.Info().Addr
	text, err := env.Session.FourLetter(ctx, addr, "srvr")
	if env.Yes || err == nil && strings.Contains(text, "zksh-sandbox") {
		return true, nil
	}
	question := fmt.Sprintf("%s is not a sandbox; open %d sessions there and acquire locks below a temporary znode? [y/N]", addr, slices.Max(p.sizes)+1)
	var yes bool
	switch {
	case env.Mode == commands.ByHand:
		yes, err = env.Screen.Ask(ctx, question+" ")
	case env.Stdin != nil && env.Streams.OnTerminal():
		var answer string
		answer, err = lineReader(env)(ctx, question)
		answer = strings.ToLower(strings.TrimSpace(answer))
		yes = answer == "y" || answer == "yes"
	default:
		return false, commands.Misuse("%s is not a sandbox; to run lockdemo there, write zksh --yes lockdemo: it creates a temporary znode, works only below it, and deletes it afterwards", addr)
	}
	if err == nil && !yes {
		env.Screen.Note("nothing was done")
	}
	return yes, err
}

// runScenes runs each scheme of the plan with each number of contenders.
func (p *plan) runScenes(ctx context.Context, st *runner) (*summary, error) {
	sum := &summary{}
	// Before the first scene, check that the servers accept enough sessions.
	if err := st.open(ctx, slices.Max(p.sizes)+1); err != nil {
		return sum, err
	}
	if err := st.createFolder(ctx, st.root); err != nil {
		return sum, err
	}
	together := 1 // number of schemes to show beside each other
	if columns, _ := st.display.region.Size(); columns >= sideBySide && !st.display.pace.live {
		together = 2
	}
	for group := range slices.Chunk(p.schemes, together) {
		for _, n := range p.sizes {
			for _, s := range group {
				if err := st.open(ctx, n+1); err != nil {
					return sum, err
				}
				r, err := st.newScene(s, n).run(ctx)
				if err != nil {
					return sum, fmt.Errorf("%s n=%d: %w", s.name, n, err)
				}
				sum.Results = append(sum.Results, r)
			}
			if err := st.display.show(ctx, len(group)); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}
