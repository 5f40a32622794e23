package lockcmd

import (
	"context"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
)

// ticketCheck is the time between two checks of the Kerberos ticket.
const ticketCheck = time.Minute

// A ticketWatch warns the user if the session's Kerberos ticket ends soon and zksh cannot renew it.
// The locks are then lost at the next loss of the connection.
type ticketWatch struct {
	stop    context.CancelFunc // ends the goroutine; nil if there is none
	running sync.WaitGroup     // the goroutine
}

// watchTicket checks the ticket now, and then once per minute until Release, as long as locks are
// held. At the prompt, the shell itself checks it after each line, so that only a command under a
// lock needs this.
func (t *Table) watchTicket(o *shellLock, underCommand bool) {
	session := o.env.Session
	if session == nil || session.Secure().SASL == nil || o.env.Mode == commands.ByHand && !underCommand { // some tests have no session
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &t.tickets
	if w.stop != nil || t.ending {
		return
	}
	ctx, stop := context.WithCancel(t.background)
	w.stop = stop
	o.checkTicket()
	w.running.Go(func() { // returns when stop is called
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(ticketCheck):
			}
			if held, _ := t.Held(); held > 0 {
				o.checkTicket()
			}
		}
	})
}

// checkTicket warns once of the end of a ticket.
func (o *shellLock) checkTicket() {
	id := o.env.Session.Info().Identity
	if id == nil {
		return
	}
	if text := id.NewWarning(time.Now()); text != "" {
		o.notify("lock " + o.path + ": " + text)
	}
}

// end stops the goroutine, if there is one, and waits for it.
func (w *ticketWatch) end() {
	if w.stop != nil {
		w.stop()
	}
	w.running.Wait()
}
