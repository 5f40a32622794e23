package zklock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// An action is an operation of a client, as recorded in the history.
type action struct {
	kind   string // acquire, write, release
	client int
	mode   zklock.Mode
	fence  int64
}

// lockState is the state of a lock and of a register that rejects a write with an older
// fence than the last.
type lockState struct {
	exclusive bool
	holders   uint64 // bit set of clients
	last      int64  // fence of the last exclusive holder
	greatest  int64  // greatest fence of all holders
	register  int64
}

// model is a correct lock.
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

// step reports whether an action can end with the result ok, and returns the state after
// it.
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

// register is the store that the lock protects. It rejects writes with an older fence than
// the last.
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

// history records the actions of all clients.
type history struct {
	start time.Time

	mu   sync.Mutex
	list []porcupine.Operation
	last time.Duration // time of the last acquisition
	gap  time.Duration // longest time between two acquisitions
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

// check fails the test if no correct lock can have this history.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if result := porcupine.CheckOperationsTimeout(model, h.list, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of %d actions is not one of a lock: %s", len(h.list), result)
	}
}

// The checker notices two holders at once, a fence that does not grow, and a stale write
// that is accepted.
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
