package zkconn

import (
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"time"
)

// maxWord is the longest answer to a four-letter word that is taken: some hundred
// thousand connections or ephemeral znodes.
const maxWord = 64 << 20

// FourLetter sends a four-letter word (ruok, srvr, …) to a server, outside any
// session, and returns its answer, whole or not at all.
func FourLetter(ctx context.Context, addr, word string) (string, error) {
	const patience = 2 * time.Second
	d := net.Dialer{Timeout: patience}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(c, maxWord+1))
	if err == nil && len(b) > maxWord {
		err = fmt.Errorf("the answer of %s to %s is longer than %d MiB", addr, word, maxWord>>20)
	}
	return string(b), err
}

var versionPattern = regexp.MustCompile(`(?i)version: (\d+)\.(\d+)`)

// HasMultiRead tells whether the server of this pipe knows multiRead, as servers
// from 3.6 on do. An older one would drop the connection over it, so a server
// whose version cannot be learnt counts as old.
func (p *Pipe) HasMultiRead(ctx context.Context) bool {
	answer, err := FourLetter(ctx, p.k.addr, "srvr")
	if err != nil {
		return false
	}
	m := versionPattern.FindStringSubmatch(answer)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 3 || major == 3 && minor >= 6
}
