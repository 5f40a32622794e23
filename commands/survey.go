package commands

import (
	"context"
	"errors"
	"iter"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

// survey is a walk over a subtree that prints results while it is in progress.
type survey struct {
	env    *Env
	src    zktree.Source
	walk   *zktree.Walk
	update func(done, total int)
	unread zktree.UnreadError // znodes that could not be read
	err    error              // error that ended the walk early, or nil
}

// surveyOf begins a walk and reads the root of the subtree. If watch is true, the walk sets a
// child watch on each znode.
func surveyOf(ctx context.Context, env *Env, path string, watch bool, o zktree.Options) (*survey, error) {
	src, err := zktree.OnServer(ctx, env.Session.Client, path, watch)
	if err != nil {
		return nil, err
	}
	s := &survey{env: env, src: src, unread: zktree.UnreadError{Root: path}}
	o.Progress = func(done, total int) {
		if s.update != nil {
			s.update(done, total)
		}
	}
	s.walk, err = zktree.Begin(ctx, src, path, o)
	return s, err
}

// steps returns the steps of the walk, and records errors in s. verb is the verb in the progress
// display, such as "counted".
func (s *survey) steps(verb string) iter.Seq[*zktree.Step] {
	return func(yield func(*zktree.Step) bool) {
		update, end := s.env.Screen.Progress(verb)
		s.update = update
		defer end()
		for st, err := range s.walk.Steps() {
			if err != nil {
				s.err = err
				return
			}
			if st.Err != nil && st.Kind == zktree.Enter {
				s.unread.Add(st.Err)
			}
			if !yield(st) {
				return
			}
		}
	}
}

// items returns the items of all steps of the walk. itemsOf yields the items of a single step. If
// itemsOf returns false, the sequence ends early.
func (s *survey) items(verb string, itemsOf func(*zktree.Step, func(render.Item) bool) bool) iter.Seq[render.Item] {
	return func(yield func(render.Item) bool) {
		for st := range s.steps(verb) {
			if st.Kind == zktree.Pause && !yield(nil) || st.Kind != zktree.Pause && !itemsOf(st, yield) {
				return
			}
		}
	}
}

// print prints a stream that consists of the walk's items.
func (s *survey) print(v *render.Stream) error {
	v.End = s.end
	if err := s.env.Screen.Print(v); err != nil {
		return err
	}
	return s.end()
}

// end returns an error if the walk did not visit every znode of the subtree.
func (s *survey) end() error {
	return errors.Join(s.err, s.unread.OrNil())
}

var _ render.Item = pathItem{}

// pathItem is a znode in the output of a command that prints paths.
type pathItem struct {
	path   string
	decode bool // whether to URL-decode the path in text output
}

func (p pathItem) Cells() []string {
	if p.decode {
		return []string{unescape(p.path)}
	}
	return []string{render.OneLine(p.path)}
}

func (p pathItem) JSON() any { return p.path }

// pathStream returns a result that prints one path per line.
func pathStream(root string, items iter.Seq[render.Item]) *render.Stream {
	return &render.Stream{Open: render.Facts{"path", root}, List: "paths", Columns: []render.Column{{Header: "path"}}, Bare: true, Items: items}
}
