package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
)

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(nil)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("x"); !Unread(err) || Refused(err) {
		t.Errorf("a pipe: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(server.(*net.TCPConn).SetLinger(0), server.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !Cut(err) || Unread(err) || Refused(err) {
		t.Errorf("a connection: %v", err)
	}
}
