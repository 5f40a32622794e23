package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	zktest.Must(t, l.Close())
	_, err = net.Dial("tcp", l.Addr().String())
	if !Refused(fmt.Errorf("no server: %w", err)) || Cut(err) || Unread(err) {
		t.Errorf("%v", err)
	}
	if Refused(nil) || Cut(nil) || Unread(nil) || Refused(io.EOF) || Cut(io.EOF) || Unread(io.EOF) {
		t.Error("others are")
	}
}

func TestUnread(t *testing.T) {
	r, w, err := os.Pipe()
	zktest.Must(t, err)
	_, err = w.Write(nil)
	zktest.Must(t, errors.Join(err, r.Close()))
	if _, err := w.WriteString("x"); !Unread(err) || Refused(err) {
		t.Errorf("a pipe: %v", err)
	}
	zktest.Must(t, w.Close())
}

func TestCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	zktest.Must(t, err)
	defer c.Close()
	server, err := l.Accept()
	zktest.Must(t, err)
	zktest.Must(t, errors.Join(server.(*net.TCPConn).SetLinger(0), server.Close()))
	if _, err := c.Read(make([]byte, 1)); !Cut(err) || Unread(err) || Refused(err) {
		t.Errorf("a connection: %v", err)
	}
}
