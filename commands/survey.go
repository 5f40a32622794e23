package commands

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

// survey is a walk over a subtree that prints results while it is in progress.
type survey struct {
	env    *Env
	root   string
	znodes dump.Znodes
	update func(done, total int)
	pause  func() bool        // called before the walk waits for the server; false ends the walk
	unread zktree.UnreadError // znodes that could not be read
	err    error              // error that ended the walk early, or nil
}

// surveyOf begins a walk and reads the root of the subtree.
func surveyOf(ctx context.Context, env *Env, path string, o zktree.Options) (s *survey, err error) {
	s = &survey{env: env, root: path, unread: zktree.UnreadError{Root: path}}
	o.Progress = func(done, total int) {
		if s.update != nil {
			s.update(done, total)
		}
	}
	o.Pause = func() bool { return s.pause == nil || s.pause() }
	s.znodes, err = zktree.Walk(ctx, env.Session.Client, path, o)
	return s, err
}

// each returns the znodes, each with the reason why it could not be read, or nil. It records errors in
// s. verb is the verb in the progress display, such as "counted".
func (s *survey) each(verb string) dump.Znodes {
	return func(yield func(*dump.Znode, error) bool) {
		update, end := s.env.Screen.Progress(verb)
		s.update = update
		defer end()
		for z, err := range s.znodes {
			if z == nil {
				s.err = err
				return
			}
			if err != nil {
				s.unread.Add(err)
			}
			if !yield(z, err) {
				return
			}
		}
	}
}

// items returns the items of all znodes. itemsOf yields the items of a single znode. If itemsOf returns
// false, the sequence ends early.
func (s *survey) items(
	verb string, itemsOf func(z *dump.Znode, refusal error, yield func(render.Item) bool) bool,
) iter.Seq[render.Item] {
	return func(yield func(render.Item) bool) {
		stopped := false // by the caller, during a pause: znodes may still follow, such as ancestors
		s.pause = func() bool {
			stopped = !yield(nil)
			return !stopped
		}
		for z, refusal := range s.each(verb) {
			if stopped || !itemsOf(z, refusal, yield) {
				return
			}
		}
	}
}

// depth returns the number of levels between the root of the walk and a znode.
func (s *survey) depth(z *dump.Znode) int { return dump.Depth(z.Path) - dump.Depth(s.root) }

// nameOf returns the last name in a path, or an empty string for /.
func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

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
