package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// recordOwner records a lock that this shell has acquired for an owner, for the command locks.
func (t *Table) recordOwner(l ownerLock) {
	t.forgetOwner(l.key, l.owner)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ownerLocks = append(t.ownerLocks, l)
}

// forgetOwner removes the record of a lock that the owner no longer holds.
func (t *Table) forgetOwner(k key, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ownerLocks = slices.DeleteFunc(t.ownerLocks, func(o ownerLock) bool { return o.key == k && o.owner == owner })
}

// unlockForOwner releases the lock that an owner holds on path or, if there is none, its lease of
// the semaphore there.
func (t *Table) unlockForOwner(ctx context.Context, env *commands.Env, owner, path string) error {
	if err := errors.Join(validateOwner(owner), zkconn.ValidatePath(path, false)); err != nil {
		return err
	}
	if err := ready(ctx, env.Session); err != nil {
		return err
	}
	at := env.Session.Ensemble()
	ctx, cancel := context.WithTimeout(ctx, env.Session.Info().Timeout)
	defer cancel()
	released, err := zklock.NewOwned(conn{at}, path, owner, zklock.Options{}).Unlock(ctx)
	if err == nil && !released {
		released, err = zklock.NewOwnedLease(conn{at}, path, owner, 1, zklock.Options{}).Unlock(ctx) // the number of leases makes no difference here
	}
	switch {
	case errors.Is(err, zklock.ErrUnconfirmed):
		return notConfirmed(fmt.Errorf("%s: %w; to release the lock of %s, run the same command again", path, err, owner))
	case errors.Is(err, zklock.ErrLost):
		err = lockLost(fmt.Errorf("%s: another client removed the znode of %s just now, so the lock may have been free before", path, owner))
	case err != nil:
		return fmt.Errorf("cannot release the lock %s of %s: %w", path, owner, err)
	}
	t.forgetOwner(key{at, env.Session.ServerPath(path)}, owner)
	if err != nil {
		return err
	}
	answer := ownerUnlocked{path, owner, released, ""}
	if !released {
		answer.Remark = whyNotHeld(ctx, env, owner, path)
	}
	return env.Screen.Print(answer)
}

// whyNotHeld returns a remark about a lock that the owner does not hold: who holds it, or that the
// owner waits for it. It returns an empty string if the lock is free or the queue is unreadable.
func whyNotHeld(ctx context.Context, env *commands.Env, owner, path string) string {
	q, err := queue.Read(ctx, ensemble{env.Session}, path)
	switch {
	case err != nil:
		return ""
	case q.Missing:
		return "the path does not exist"
	}
	var holders []string
	for _, c := range q.Contenders {
		if c.Owner == owner {
			return fmt.Sprintf("it waits for the lock in session %s", c.Session)
		}
		if c.Holds() {
			holders = append(holders, cmp.Or(c.Who, c.Node))
		}
	}
	if len(holders) == 0 {
		return ""
	}
	return "the holder is: " + strings.Join(holders, ", ")
}

// ownerUnlocked is the answer of unlock --owner.
type ownerUnlocked struct {
	Path     string `json:"unlocked"`
	Owner    string `json:"owner"`
	Released bool   `json:"released"`         // false if the owner held nothing
	Remark   string `json:"remark,omitempty"` // if Released is false: who holds the lock, or what the owner does
}

// Text implements render.Value.
func (u ownerUnlocked) Text(w io.Writer) error {
	if !u.Released {
		text := fmt.Sprintf("%s does not hold the lock %s", u.Owner, u.Path)
		if u.Remark != "" {
			text += ": " + u.Remark
		}
		_, err := io.WriteString(w, render.Safe(text)+"\n")
		return err
	}
	return lockLine{"unlocked", u.Path, "owner", u.Owner}.Text(w)
}

// ownerAt returns an owner for whom this shell has acquired a lock, or an empty string.
func (t *Table) ownerAt(k key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.ownerLocks {
		if l.key == k {
			return l.owner
		}
	}
	return ""
}

// ownerRows returns the rows for the locks that this shell has acquired for owners.
func (t *Table) ownerRows() (rows lockRows) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.ownerLocks {
		if !l.key.stay.Closed() {
			rows = append(rows, lockRow{Path: l.path, Mode: l.label, State: "acquired for " + l.owner, Node: l.node, Token: render.Hex(l.token), Owner: l.owner})
		}
	}
	return rows
}
