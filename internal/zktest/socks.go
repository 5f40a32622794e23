package zktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// A SOCKS is a SOCKS5 proxy. It resolves names only with its own table.
type SOCKS struct {
	addr           string
	user, password string // if user is not empty, the proxy requires both
	names          map[string]string

	mu    sync.Mutex
	asked []string
}

// NewSOCKS starts a SOCKS5 proxy, which ends with the test tb. names maps host:port, as clients
// write it, to the address to which the proxy connects. To all other requests, the proxy replies
// that the host is unreachable. If user is not empty, the proxy requires this user and password.
func NewSOCKS(tb testing.TB, names map[string]string, user, password string) *SOCKS {
	tb.Helper()
	p := &SOCKS{user: user, password: password, names: names}
	p.addr = peer(tb, func(c net.Conn) {
		if err := p.serve(c); err != nil {
			tb.Logf("zktest: SOCKS: %v", err)
		}
	})
	return p
}

// Addr returns the address of the proxy, as host:port.
func (p *SOCKS) Addr() string { return p.addr }

// Asked returns the addresses to which clients wanted to connect, as host:port, in order.
func (p *SOCKS) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// serve handles one connection by RFC 1928 and RFC 1929. The end of a connection is not an error.
func (p *SOCKS) serve(c net.Conn) error {
	if _, err := take(c, 1); err != nil { // version
		return nil
	}
	if _, err := takeString(c); err != nil { // methods
		return err
	}
	if p.user != "" {
		if _, err := c.Write([]byte{5, 2}); err != nil {
			return err
		}
		_, err := take(c, 1) // version of the authentication
		user, err1 := takeString(c)
		password, err2 := takeString(c)
		if err := errors.Join(err, err1, err2); err != nil {
			return err
		}
		if user != p.user || password != p.password {
			_, err := c.Write([]byte{1, 1})
			return err
		}
		if _, err := c.Write([]byte{1, 0}); err != nil {
			return err
		}
	} else if _, err := c.Write([]byte{5, 0}); err != nil {
		return err
	}
	target, err := takeTarget(c)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.asked = append(p.asked, target)
	addr, known := p.names[target]
	p.mu.Unlock()
	const granted, unreachable, refused = 0, 4, 5
	if !known {
		return reply(c, unreachable)
	}
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return reply(c, refused)
	}
	if err := reply(c, granted); err != nil {
		to.Close()
		return err
	}
	join(c, to)
	return nil
}

func take(c net.Conn, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	return b, err
}

// takeString reads a byte with a length, and then that many bytes.
func takeString(c net.Conn) (string, error) {
	n, err := take(c, 1)
	if err != nil {
		return "", err
	}
	b, err := take(c, int(n[0]))
	return string(b), err
}

// takeTarget reads a connect request, and returns the address in it.
func takeTarget(c net.Conn) (string, error) {
	head, err := take(c, 4)
	if err != nil {
		return "", err
	}
	host := ""
	switch head[3] {
	case 1, 4:
		var b []byte
		b, err = take(c, map[byte]int{1: net.IPv4len, 4: net.IPv6len}[head[3]])
		host = net.IP(b).String()
	case 3:
		host, err = takeString(c)
	default:
		err = fmt.Errorf("unknown address type %d", head[3])
	}
	if err != nil {
		return "", err
	}
	port, err := take(c, 2)
	return net.JoinHostPort(host, strconv.Itoa(int(port[0])<<8|int(port[1]))), err
}

func reply(c net.Conn, code byte) error {
	_, err := c.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}
