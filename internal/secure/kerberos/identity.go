package kerberos

import (
	"fmt"
	"time"

	"github.com/zksh/zksh/internal/peer"
)

// An Identity describes how a connection was authenticated.
type Identity struct {
	Principal string    `json:"principal"`
	Service   string    `json:"service"` // principal of the server, which has proved it
	Until     time.Time `json:"until"`   // end of the ticket
	Source    string    `json:"source"`  // where the ticket came from
	Renews    bool      `json:"renews"`  // whether zksh can get a new ticket by itself

	login *Login
}

// String returns a description for the user, on one line.
func (i *Identity) String() string {
	return fmt.Sprintf("Kerberos: %s, proved to %s, with the %s; the ticket is valid until %s",
		peer.Printable(i.Principal), peer.Printable(i.Service), i.Source, i.Until.Local().Format(time.DateTime))
}

// warnBefore is the time before the end of a ticket at which zksh warns that it cannot renew it.
const warnBefore = 2 * time.Hour

// NewWarning returns the same warning as Warning, but only once for each ticket, whatever the number
// of sessions with it.
func (i *Identity) NewWarning(now time.Time) (text string) {
	text, end := i.Warning(now)
	if text == "" || i.login.warned.Swap(end.Unix()) == end.Unix() {
		return ""
	}
	return text
}

// Warning returns a warning if the ticket ends soon and zksh cannot renew it, or an empty string.
func (i *Identity) Warning(now time.Time) (text string, end time.Time) {
	if i.Renews || i.Until.Sub(now) >= warnBefore {
		return "", i.Until
	}
	end = i.LastEnd()
	left := end.Sub(now)
	if left >= warnBefore {
		return "", end
	}
	return fmt.Sprintf("the Kerberos ticket of %s ends in %d minutes, at %s; after that, zksh cannot connect again; "+
		"get a new ticket with kinit",
		peer.Printable(i.Principal), int(max(left, 0).Minutes()), end.Local().Format("15:04")), end
}

// LastEnd returns the end of the ticket, or of a later one in the ticket cache, if the user has
// renewed it.
func (i *Identity) LastEnd() time.Time {
	end := i.Until
	if cc, _, err := i.login.readCache(); err == nil && cc.owner.PrincipalNameString()+"@"+cc.realm == i.Principal {
		for _, c := range cc.creds {
			if c.server.PrincipalNameString() == "krbtgt/"+cc.realm && c.until.After(end) {
				end = c.until
			}
		}
	}
	return end
}
