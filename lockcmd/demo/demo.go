// Package demo has the command lockdemo: the ways to lock that people write about,
// played side by side, with what each of them costs.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

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
	text, err := zkconn.FourLetter(ctx, addr, "srvr")
	if p.yes || err == nil && strings.Contains(text, "zksh-sandbox") {
		return true, nil
	}
	if env.Mode != commands.ByHand {
		return false, commands.Misuse("%s is no sandbox; --yes is to play there all the same", addr)
	}
	yes, err := env.Screen.Ask(ctx, fmt.Sprintf("%s is no sandbox; open %d sessions there, and lock below a folder that goes afterwards? [y/N] ",
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

// slideSize is how many contenders can still be told apart on a slide.
const slideSize = 20

// draw draws one scene of each scheme: the largest that fits a slide, or the smallest.
func draw(name string, boards []*board) error {
	var chosen []*board
	for _, b := range boards {
		n := b.scene.n
		at := slices.IndexFunc(chosen, func(o *board) bool { return o.scene.scheme.name == b.scene.scheme.name })
		switch {
		case at < 0:
			chosen = append(chosen, b)
		case n <= slideSize && (chosen[at].scene.n > slideSize || n > chosen[at].scene.n), n < chosen[at].scene.n && chosen[at].scene.n > slideSize:
			chosen[at] = b
		}
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(drawSVG(f, chosen), f.Close())
}
