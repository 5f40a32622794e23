package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/secure"
)

// dial returns a connection for the library go-zookeeper. If failover has already moved the session
// to a new connection, dial returns that connection. Otherwise, it connects to addr.
func (l *Link) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	if k := l.takeSpare(); k != nil {
		return socket{k.tcp, k}, nil
	}
	if err := l.backOff(); err != nil {
		return nil, err
	}
	k, err := l.open(l.ctx, network, addr, l.hosts.attempt())
	if err != nil {
		l.attemptFailed(addr, plainCause(err))
		return nil, err
	}
	return socket{k.tcp, k}, nil
}

// open connects to the server at addr. The time limit also covers ZooKeeper's handshake.
func (l *Link) open(ctx context.Context, network, addr string, limit time.Duration) (*Conn, error) {
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := l.cfg.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c, agreed, err := l.secured(ctx, c, addr)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		c.Close()
		return nil, err
	}
	k := newConn(c, addr, l)
	k.Agreed, k.until = agreed, deadline
	k.unbind = context.AfterFunc(l.ctx, func() { c.Close() }) // release cancels this
	return k, nil
}

// Shortest and longest pause before zksh connects again to servers that grant no session.
const (
	firstBackOff = 100 * time.Millisecond
	longBackOff  = 5 * time.Second
)

// backOff pauses before the Link dials again if servers have repeatedly refused a session. The
// first refusal usually means that the session has expired, and causes no pause. From the second
// refusal on, each pause is longer than the previous one, up to longBackOff.
func (l *Link) backOff() error {
	l.mu.Lock()
	again := l.refusals - 2
	l.mu.Unlock()
	if again < 0 {
		return nil
	}
	select {
	case <-time.After(min(firstBackOff<<min(again, 10), longBackOff)):
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

func (l *Link) attemptFailed(addr string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = slices.DeleteFunc(slices.Clone(l.attempts), func(a Attempt) bool { return a.Addr == addr })
	l.attempts = append(l.attempts, Attempt{addr, cause})
}

func (l *Link) passFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Waiting requests give up when l.passes increases. So it must increase at most about once a
	// second, even if the pauses between passes are shorter.
	if now := time.Now(); now.Sub(l.counted) >= longPause-pauseJitter {
		l.passes, l.counted = l.passes+1, now
	}
	l.failed, l.attempts = l.attempts, nil
	if !l.searching && l.cur == nil && l.ending == nil {
		l.searching = true
		l.handler.Unreachable(l.failed)
	}
	l.notify()
}

// secured adds TLS to the connection c if TLS is configured. If the TLS handshake fails, c is
// closed.
func (l *Link) secured(ctx context.Context, c net.Conn, addr string) (net.Conn, *secure.Agreed, error) {
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

// plainCause returns the reason in a dial error, without the address, because the messages that
// quote the reason already contain the address.
func plainCause(err error) error {
	if _, ok := errors.AsType[*secure.Error](err); ok {
		return err
	}
	if through, ok := errors.AsType[*proxyError](err); ok {
		return through
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return errors.New("unknown host")
		}
		return fmt.Errorf("name lookup failed: %s", dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Timeout() {
			return errors.New("connecting timed out")
		}
		if sys, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return sys.Err
		}
		return op.Err
	}
	return err
}
