package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxFourLetter is the limit for the answer to a four-letter command, in bytes. Even the answer
// of a server with 100,000 connections, or 200,000 ephemeral znodes, is shorter.
const maxFourLetter = 16 << 20

// FourLetter opens a new connection to the server at addr, sends it a four-letter command (ruok,
// srvr, …), and returns the reply. An incomplete reply is an error. The connection uses TLS if
// the Link does.
func (l *Link) FourLetter(ctx context.Context, addr, command string) (string, error) {
	const patience = 2 * time.Second
	deadline := time.Now().Add(patience)
	connecting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := l.Dial(connecting, "tcp", addr)
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

var versionPattern = regexp.MustCompile(`(?im)^(.*?) version: (?:\D*?)((\d+)\.(\d+)[\d.]*)`)

// A Version is the product and version that a server reports.
type Version struct {
	Product      string // text before " version: " in the answer to srvr; empty if it contains no version
	Number       string // complete version number, such as 3.8.4
	Major, Minor int
}

// ZooKeeper reports whether the server says that it is ZooKeeper.
func (v Version) ZooKeeper() bool { return strings.EqualFold(v.Product, "zookeeper") }

// AtLeast reports whether the server says that it is ZooKeeper 3.minor or later.
func (v Version) AtLeast(minor int) bool {
	return v.ZooKeeper() && (v.Major > 3 || v.Major == 3 && v.Minor >= minor)
}

// parseVersion returns the Version in the answer to srvr, or a zero Version if it contains none.
func parseVersion(answer string) (v Version) {
	m := versionPattern.FindStringSubmatch(answer)
	if m == nil {
		return v
	}
	var errs [2]error
	v.Product, v.Number = m[1], m[2]
	v.Major, errs[0] = strconv.Atoi(m[3])
	v.Minor, errs[1] = strconv.Atoi(m[4])
	if errors.Join(errs[:]...) != nil {
		return Version{}
	}
	return v
}

// Version returns the version that the server reports in its answer to srvr, or a zero Version if
// it does not answer. It asks the server only once for each connection. The only possible error
// is the cause of ctx, if ctx has ended.
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
