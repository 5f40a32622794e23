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
	if !Refused(fmt.Errorf("no server: %w", err)) || Gone(err) {
		t.Errorf("%v", err)
	}
	if Refused(nil) || Gone(nil) || Refused(io.EOF) || Gone(io.EOF) {
		t.Error("others are")
	}
}

func TestGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(nil)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("x"); !Gone(err) || Refused(err) {
		t.Errorf("a pipe: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

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
	if _, err := c.Read(make([]byte, 1)); !Gone(err) || Refused(err) {
		t.Errorf("a connection: %v", err)
	}
}
