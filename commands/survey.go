package commands

import (
	"context"
	"errors"
	"iter"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

// survey is a walk over a subtree that is shown as it goes.
type survey struct {
	env    *Env
	src    zktree.Source
	walk   *zktree.Walk
	update func(done, total int)
	shut   zktree.UnreadError // what may not be read
	err    error              // what broke it off
}

// surveyOf reads the root of a subtree. With watch, each list of children leaves a watch.
func surveyOf(ctx context.Context, env *Env, from reader, path string, watch bool, o zktree.Options) (*survey, error) {
	src, err := sourceOf(ctx, env, from, path, watch)
	if err != nil {
		return nil, err
	}
	s := &survey{env: env, src: src, shut: zktree.UnreadError{Root: path}}
	o.Progress = func(done, total int) {
		if s.update != nil {
			s.update(done, total)
		}
	}
	if s.walk, err = zktree.Begin(ctx, src, path, o); err != nil {
		if k, kept := from.(*keptReader); kept {
			err = k.explain(err)
		}
	}
	return s, err
}

func sourceOf(ctx context.Context, env *Env, from reader, path string, watch bool) (zktree.Source, error) {
	if k, kept := from.(*keptReader); kept {
		return k, nil
	}
	return zktree.OnServer(ctx, env.Session.Client, path, watch)
}

// steps are those of the walk, and keeps what goes wrong. verb is for the progress.
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
				s.shut.Add(st.Err)
			}
			if !yield(st) {
				return
			}
		}
	}
}

// items returns the items that of makes of each step, until of returns false.
func (s *survey) items(verb string, of func(*zktree.Step, func(render.Item) bool) bool) iter.Seq[render.Item] {
	return func(yield func(render.Item) bool) {
		for st := range s.steps(verb) {
			if st.Kind == zktree.Pause && !yield(nil) || st.Kind != zktree.Pause && !of(st, yield) {
				return
			}
		}
	}
}

// print shows a stream that is made of the survey.
func (s *survey) print(v *render.Stream) error {
	v.End = s.end
	if err := s.env.Screen.Print(v); err != nil {
		return err
	}
	return s.end()
}

// end is the error of a survey that has not seen all.
func (s *survey) end() error {
	return errors.Join(s.err, s.shut.OrNil())
}

// pathItem is a path in an answer.
type pathItem struct {
	path   string
	decode bool // for people
}

// Cells is part of render.Item.
func (p pathItem) Cells() []string {
	if p.decode {
		return []string{decoded(p.path)}
	}
	return []string{render.OneLine(p.path)}
}

// JSON is part of render.Item.
func (p pathItem) JSON() any { return p.path }

// pathStream is an answer that is a path a line.
func pathStream(root string, items iter.Seq[render.Item]) *render.Stream {
	return &render.Stream{Open: render.Facts{"path", root}, List: "paths", Columns: []render.Column{{Header: "path"}}, Bare: true, Items: items}
}
