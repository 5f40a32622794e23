package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxFourLetter bounds the answer to a four-letter command, in bytes. A server with a hundred
// thousand connections, or twice as many ephemeral znodes, stays below it.
const maxFourLetter = 16 << 20

// FourLetter sends a four-letter command (ruok, srvr, …) to a server on a connection of its own,
// and returns the complete reply or none. It uses TLS if the Link does.
func (l *Link) FourLetter(ctx context.Context, addr, command string) (string, error) {
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
	if _, err := io.WriteString(c, command); err != nil {
		return "", err
	}
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(c, maxFourLetter+1)); err != nil {
		return b.String(), err
	}
	if b.Len() > maxFourLetter {
		return "", fmt.Errorf("the reply of %s to the four-letter command %s exceeds the limit of %d MiB", addr, command, maxFourLetter>>20)
	}
	return b.String(), nil
}

var versionPattern = regexp.MustCompile(`(?im)^(.*?) version: (?:\D*?)(\d+)\.(\d+)`)

// A Version is the product and version that a server reports.
type Version struct {
	Product      string // the text before " version: "; empty if the server reports no version
	Major, Minor int
}

// ZooKeeper reports whether the server says that it is ZooKeeper.
func (v Version) ZooKeeper() bool { return strings.EqualFold(v.Product, "zookeeper") }

// AtLeast reports whether the server says that it is ZooKeeper 3.minor or later.
func (v Version) AtLeast(minor int) bool {
	return v.ZooKeeper() && (v.Major > 3 || v.Major == 3 && v.Minor >= minor)
}

// parseVersion reads the answer to srvr.
func parseVersion(answer string) (v Version) {
	m := versionPattern.FindStringSubmatch(answer)
	if m == nil {
		return v
	}
	var errs [2]error
	v.Product = m[1]
	v.Major, errs[0] = strconv.Atoi(m[2])
	v.Minor, errs[1] = strconv.Atoi(m[3])
	if errors.Join(errs[:]...) != nil {
		return Version{}
	}
	return v
}

// Version returns the server's answer to srvr. It asks once for each connection. It returns an
// error only if ctx has ended.
func (k *Conn) Version(ctx context.Context) (Version, error) {
	k.mu.Lock()
	known := k.version
	k.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	answer, err := k.l.FourLetter(ctx, k.Server, "srvr")
	if ctx.Err() != nil {
		return Version{}, context.Cause(ctx)
	}
	v := Version{}
	if err == nil {
		v = parseVersion(answer)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version = &v
	return v, nil
}
