package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/secure"
)

// maxSASL is the maximum size of a SASL token from the server, in bytes. Tokens of DIGEST-MD5 have
// a few hundred bytes.
const maxSASL = 64 << 10

// authenticate authenticates with SASL, if that is configured. It must be called directly after the
// connect reply, before go-zookeeper has read that reply. Until then, go-zookeeper sends nothing,
// not even pings.
func (k *Conn) authenticate() error {
	s := k.l.cfg.Secure.SASL
	if s == nil {
		return nil
	}
	xid := int32(xidBase)
	ctx, cancel := context.WithDeadline(k.l.ctx, k.until)
	defer cancel()
	ip, _, err := net.SplitHostPort(k.tcp.RemoteAddr().String())
	if err != nil {
		ip = "" // the connection is a pipe in a test
	}
	k.Identity, err = s.Authenticate(ctx, k.l.hosts.namesOf(k.Server)[0], ip, func(token []byte) ([]byte, error) {
		xid++
		return k.exchange(xid, token)
	})
	if refused, ok := errors.AsType[*secure.Error](err); ok {
		k.l.Fail(Ending{true, fmt.Errorf("%w: %w; to start a session without SASL, run: connect", k.l.cfg.Refusal(AuthFailed), refused)})
	}
	return err
}

// errDuringSASL is the error of a connection that ended during SASL authentication. Other errors
// wrap it.
var errDuringSASL = errors.New("the connection ended during SASL authentication")

// exchange sends a SASL token and returns the token with which the server answers. It waits at
// most until the time limit for connecting.
func (k *Conn) exchange(xid int32, token []byte) ([]byte, error) {
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
		return nil, fmt.Errorf("%w: %w", errDuringSASL, err)
	}
	k.traceReceived(frame)
	d := jute.NewDecoder(frame)
	got := d.Int()
	d.Long() // skip the zxid
	code := d.Int()
	switch {
	case d.Err() == nil && got != xid:
		return nil, neverAsked(got)
	case d.Err() == nil && code != OK:
		return nil, fmt.Errorf("%w: %w", secure.ErrRefused, k.l.cfg.Refusal(code))
	}
	answer := d.Buffer()
	if d.Err() != nil {
		return nil, Fault{Text: "the server sent a truncated SASL reply"}
	}
	return answer, nil
}
