package shell

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zksh/zksh/internal/zkconn"
)

// A server that has too much to do refuses a line's request with Throttled, and may
// carry out those of the lines behind it. To send it again would change their order, so
// that is done only while none of those has been carried out. From then on each line
// waits for the one before, and is sent again until it is answered.

// single tells whether nothing is sent behind a step that is begun now.
func (w *window) single() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most == 1
}

// again runs a step once more that was throttled, if it can keep its place. It waits
// for all behind it, which are put aside. The teller's.
func (w *window) again(st *step) {
	w.mu.Lock()
	w.most, w.allowed = 1, 1
	more := w.open - 1 - len(w.aside) // begun, and in the channel or about to be
	w.mu.Unlock()
	for range more {
		w.aside = append(w.aside, <-w.steps)
	}
	for _, next := range w.aside {
		<-next.ended
	}
	if i := slices.IndexFunc(w.aside, (*step).mayBeDone); i >= 0 {
		st.err = fmt.Errorf("%w (not sent again, as line %d behind it is done)", st.err, w.aside[i].number)
		return
	}
	w.start(w.ctx, st, true)
	<-st.ended
}

// mayBeDone tells of a step that has ended whether its request may have been carried
// out.
func (st *step) mayBeDone() bool { return st.sent() && !errors.Is(st.err, zkconn.Throttled) }
