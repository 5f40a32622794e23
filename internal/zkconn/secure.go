package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/secure"
)

// Everything that talks to a server goes through secured: a session's connections,
// whether they begin or resume it or stand by for a failover, and four-letter words.

// secured makes a connection one with TLS, if the ensemble has it. An error has
// closed it.
func (l *link) secured(ctx context.Context, c net.Conn, addr string) (net.Conn, *secure.Agreed, error) {
	t := l.cfg.Secure.TLS
	if t == nil {
		return c, nil, nil
	}
	over, err := t.Client(ctx, c, l.hosts.namesOf(addr))
	if err != nil {
		return nil, nil, err
	}
	return over, over.Agreed(), nil
}

// maxSASL bounds a server's token. Those of DIGEST-MD5 have some hundred bytes.
const maxSASL = 64 << 10

// authenticate does SASL, if the ensemble has it, between the connect reply and all
// else: the library has not seen the reply yet, and so sends nothing, not even pings.
func (k *frameConn) authenticate() error {
	s := k.l.cfg.Secure.SASL
	if s == nil {
		return nil
	}
	xid := int32(xidBase)
	err := s.Authenticate(func(token []byte) ([]byte, error) {
		xid++
		return k.exchange(xid, token)
	})
	if refused, ok := errors.AsType[*secure.Error](err); ok {
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		k.l.refused = fmt.Errorf("%w: %w; to start a session without SASL, run: connect", AuthFailed, refused)
		k.l.authFailed()
	}
	return err
}

// errDuringSASL marks the error of a connection that ended while SASL was going on.
var errDuringSASL = errors.New("the connection ended during SASL authentication")

// exchange sends a token and waits for the server's, until the time for connecting is
// over.
func (k *frameConn) exchange(xid int32, token []byte) ([]byte, error) {
	var e jute.Encoder
	if token == nil {
		token = []byte{}
	}
	e.Int(4 + 4 + 4 + int32(len(token)))
	e.Int(xid)
	e.Int(jute.OpSASL)
	e.Buffer(token)
	k.wmu.Lock()
	err := k.write(e.B)
	k.wmu.Unlock()
	if err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(k.r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errDuringSASL, err)
	}
	size := jute.NewDecoder(head[:]).Int()
	if size < 0 || size > maxSASL {
		return nil, notZooKeeper(head[:])
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(k.r, frame); err != nil {
		return nil, err
	}
	d := jute.NewDecoder(frame)
	got := d.Int()
	d.Long() // zxid
	code := Code(d.Int())
	switch {
	case d.Err() == nil && got != xid:
		return nil, neverAsked(got)
	case d.Err() == nil && code != codeOK:
		return nil, fmt.Errorf("%w: %w", secure.ErrRefused, code)
	}
	answer := d.Buffer()
	if d.Err() != nil {
		return nil, fault("the server sent a truncated SASL reply")
	}
	return answer, nil
}

// maxWord is the longest answer to a four-letter command that is taken: that of a server
// with a hundred thousand connections, or twice as many ephemeral znodes.
const maxWord = 16 << 20

// FourLetter sends a four-letter command (ruok, srvr, …) to a server on a connection of its own,
// and returns the complete reply or none. It uses TLS if the session does.
func (s *Session) FourLetter(ctx context.Context, addr, word string) (string, error) {
	return s.current().fourLetter(ctx, addr, word)
}

func (l *link) fourLetter(ctx context.Context, addr, word string) (string, error) {
	const patience = 2 * time.Second
	deadline := time.Now().Add(patience)
	connecting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := new(net.Dialer).DialContext(connecting, "tcp", addr)
	if err != nil {
		return "", err
	}
	if c, _, err = l.secured(connecting, c, addr); err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(c, maxWord+1)); err != nil {
		return b.String(), err
	}
	if b.Len() > maxWord {
		return "", fmt.Errorf("the reply of %s to the four-letter command %s exceeds the limit of %d MiB", addr, word, maxWord>>20)
	}
	return b.String(), nil
}
