package kerberos

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"

	"github.com/zksh/zksh/internal/peer"
)

// Limits of an exchange with one KDC.
const (
	kdcLimit  = 3 * time.Second // for the complete exchange
	maxAnswer = 1 << 20         // size of an answer, in bytes
)

// An unreachable error means that no KDC answered. A later attempt may succeed.
type unreachable struct{ text string }

func (u *unreachable) Error() string { return u.text }

// ask sends a request to the KDCs of a realm, one after the other, until one answers. If the
// answer is an error of Kerberos, ask returns it as a messages.KRBError.
func (l *Login) ask(ctx context.Context, realm string, request []byte) ([]byte, error) {
	kdcs, err := l.conf.kdcsOf(ctx, realm)
	if err != nil {
		return nil, err
	}
	// Begin with the KDC that answered last.
	slices.SortStableFunc(kdcs, func(a, b string) int {
		switch l.answered {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	var failures []string
	for i, addr := range kdcs {
		limit := kdcLimit
		if end, ok := ctx.Deadline(); ok { // leave time for the other KDCs
			limit = min(limit, time.Until(end)/time.Duration(len(kdcs)-i))
		}
		answer, err := exchange(ctx, addr, limit, request)
		if ctx.Err() != nil && err != nil && len(failures) == 0 {
			return nil, &unreachable{fmt.Sprintf("the KDC %s of the realm %s did not answer in time", addr,
				peer.Printable(realm))}
		}
		if err != nil {
			failures = append(failures, fmt.Sprintf("%s: %s", addr, plainly(err)))
			continue
		}
		l.answered = addr
		var refused messages.KRBError
		if refused.Unmarshal(answer) == nil {
			return nil, refused
		}
		return answer, nil
	}
	return nil, &unreachable{fmt.Sprintf("no KDC of the realm %s can be reached: %s", peer.Printable(realm),
		strings.Join(failures, "; "))}
}

// exchange sends a request to the KDC at addr, and returns its answer. It uses only TCP, which every
// KDC supports (RFC 4120, 7.2.2), and which has no limit for the size of tickets.
func exchange(ctx context.Context, addr string, limit time.Duration, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size == 0 || size > maxAnswer {
		return nil, fmt.Errorf("it is not a KDC: its answer began with %q", head[:])
	}
	// io.ReadAll allocates only as much memory as the KDC really sends.
	answer, err := io.ReadAll(io.LimitReader(c, int64(size)))
	if err == nil && len(answer) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return answer, err
}

// plainly returns the cause in a network error, without the addresses.
func plainly(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, net.ErrClosed),
		errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection without a complete answer"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return cmp.Or(map[bool]string{true: "unknown host"}[dns.IsNotFound], dns.Err)
	}
	if sys, ok := errors.AsType[*os.SyscallError](err); ok {
		return sys.Err.Error()
	}
	return err.Error()
}
