package zklock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// action is what a client does, as the history has it.
type action struct {
	kind   string // acquire, write, release
	client int
	mode   zklock.Mode
	fence  int64
}

// lockState is a lock, and a register that takes no write with an older fence than
// it has seen.
type lockState struct {
	exclusive bool
	holders   uint64 // a bit for each client
	last      int64  // fence of the last exclusive holder
	greatest  int64  // of all
	register  int64
}

// model is the lock as it ought to be.
var model = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(lockState).step(input.(action), output.(bool))
	},
	DescribeOperation: func(input, output any) string {
		a := input.(action)
		return fmt.Sprintf("%s %s %#x: %v", a.kind, a.mode, a.fence, output)
	},
}

// step reports whether an action can end like this, and what comes of it.
func (s lockState) step(a action, ok bool) (bool, lockState) {
	bit := uint64(1) << a.client
	switch a.kind {
	case "acquire":
		free := s.holders == 0 && a.fence > s.greatest
		if a.mode == zklock.Shared {
			free = !s.exclusive && s.holders&bit == 0 && a.fence > s.last
		}
		s.holders |= bit
		s.greatest = max(s.greatest, a.fence)
		if s.exclusive = a.mode == zklock.Exclusive; s.exclusive {
			s.last = a.fence
		}
		return free, s
	case "write":
		fits := a.fence >= s.register
		s.register = max(s.register, a.fence)
		return ok == fits, s
	}
	held := s.holders&bit != 0
	s.holders &^= bit
	s.exclusive = s.exclusive && s.holders != 0
	return held, s
}

// register is the store that the lock protects. It knows the last fence.
type register struct {
	mu    sync.Mutex
	fence int64
}

func (r *register) write(fence int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.fence {
		return false
	}
	r.fence = fence
	return true
}

// history is what the clients have done.
type history struct {
	start time.Time

	mu   sync.Mutex
	list []porcupine.Operation
	last time.Duration // when somebody got the lock
	gap  time.Duration // longest time between two who did
}

func (h *history) now() time.Duration { return time.Since(h.start) }

func (h *history) add(a action, ok bool, from, to time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, porcupine.Operation{ClientId: a.client, Input: a, Output: ok, Call: int64(from), Return: int64(to)})
	if a.kind == "acquire" {
		h.gap = max(h.gap, to-h.last)
		h.last = max(h.last, to)
	}
}

// check reports whether the history is one of such a lock.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if result := porcupine.CheckOperationsTimeout(model, h.list, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of %d actions is not one of a lock: %s", len(h.list), result)
	}
}

// The checker would notice: two holders at once, a fence that does not grow, a
// stale write that is taken.
func TestHistoryCheckerBites(t *testing.T) {
	ok := []porcupine.Operation{
		{Input: action{"acquire", 0, zklock.Exclusive, 5}, Output: true, Call: 0, Return: 10},
		{Input: action{"write", 0, zklock.Exclusive, 5}, Output: true, Call: 11, Return: 12},
		{Input: action{"release", 0, zklock.Exclusive, 5}, Output: true, Call: 20, Return: 30},
		{Input: action{"acquire", 1, zklock.Exclusive, 6}, Output: true, Call: 1, Return: 25},
		{Input: action{"release", 1, zklock.Exclusive, 6}, Output: true, Call: 40, Return: 41},
		{Input: action{"acquire", 2, zklock.Shared, 7}, Output: true, Call: 42, Return: 43},
		{Input: action{"acquire", 1, zklock.Shared, 8}, Output: true, Call: 42, Return: 43},
	}
	if !porcupine.CheckOperations(model, ok) {
		t.Error("a good history is refused")
	}
	change := func(i int, f func(*porcupine.Operation)) []porcupine.Operation {
		bad := append([]porcupine.Operation(nil), ok...)
		f(&bad[i])
		return bad
	}
	for what, bad := range map[string][]porcupine.Operation{
		"two holders": change(3, func(o *porcupine.Operation) { o.Return = 19 }),
		"an old fence": change(3, func(o *porcupine.Operation) {
			o.Input = action{"acquire", 1, zklock.Exclusive, 4}
		}),
		"a stale write":            append(ok, porcupine.Operation{Input: action{"write", 2, zklock.Shared, 4}, Output: true, Call: 50, Return: 51}),
		"a reader beside a writer": change(5, func(o *porcupine.Operation) { o.Call, o.Return = 35, 36 }),
	} {
		if porcupine.CheckOperations(model, bad) {
			t.Errorf("%s: not noticed", what)
		}
	}
}
