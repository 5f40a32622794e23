package zklock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// newGUID is a random UUID of version 4, by which the own znodes are known again.
func newGUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withdraw removes the own znodes, known or not, after a failed attempt. When ctx
// has ended nobody waits, and the removal goes on in the background.
func (e *entry) withdraw(ctx context.Context) error {
	if ctx.Err() == nil {
		err := e.sweep(ctx)
		if ctx.Err() == nil {
			return e.stuck(err)
		}
	}
	e.withdrawLater(func() {})
	return nil
}

// withdrawLater removes the own znodes in the background, and calls then once
// they are gone: removed, or with their session.
func (e *entry) withdrawLater(then func()) {
	e.l.sweeps.run(func() {
		ctx, cancel := bound(e.s)
		defer cancel()
		if err := e.stuck(e.sweep(ctx)); err != nil && !ended(e.s) {
			e.l.notify(Status{State: Releasing, Mode: e.mode, Node: e.node(), Err: err})
			return
		}
		then()
	})
}

// stuck explains what it means that znodes cannot be removed.
func (e *entry) stuck(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot remove the own znode %s (it goes when the session ends): %w", e.node(), err)
}

// sweep removes the own znodes and returns once they are surely gone, or cannot
// be removed, or ctx or the session ends. A create still on its way arrives
// before the requests made here.
func (e *entry) sweep(ctx context.Context) error {
	for len(e.names) == 0 {
		var children []string
		err := insist(ctx, e.s, func() (err error) {
			if err = e.s.Sync(ctx, e.l.path); err == nil {
				children, err = e.s.Children(ctx, e.l.path)
			}
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.names = e.find(children); len(e.names) == 0 {
			return nil
		}
	}
	return e.remove(ctx)
}

// remove deletes the known own znodes, at once if it can.
func (e *entry) remove(ctx context.Context) error {
	if len(e.names) > 1 && e.next == nil {
		var ops []any
		for _, name := range e.names {
			ops = append(ops, &zk.DeleteRequest{Path: e.l.child(name), Version: -1})
		}
		err := insist(ctx, e.s, func() error { return e.s.Multi(ctx, ops...) })
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	for _, name := range slices.Concat(e.names, e.next) { // one, or some of several are not there
		err := insist(ctx, e.s, func() error { return e.s.Delete(ctx, e.l.child(name)) })
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// askedToLetGo tells whether a znode's data is a request to release the lock:
// Curator's, or that of ZooKeeper's own recipes.
func askedToLetGo(data []byte) bool {
	text := string(data)
	return text == UnlockMessage || strings.HasPrefix(text, RevokeMessage)
}

// background counts what goes on while nobody waits for it.
type background struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n falls to 0; nil while it is 0
}

func (b *background) run(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n++; b.n == 1 {
		b.idle = make(chan struct{})
	}
	go func() { // wait waits for it
		defer b.done()
		f()
	}()
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 {
		close(b.idle)
		b.idle = nil
	}
}

// wait waits until nothing is under way, or ctx ends.
func (b *background) wait(ctx context.Context) error {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// RevokeMessage in the data of a holder's znode asks him to let go. It is
// Curator's; with anything behind it Curator does not take notice.
const RevokeMessage = "__REVOKE__"

// UnlockMessage does the same in ZooKeeper's own recipes.
const UnlockMessage = "unlock"
