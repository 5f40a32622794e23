package zktest

import (
	"io"
	"net"
	"testing"
)

func TestHostilePeers(t *testing.T) {
	dialOnly(t, Silent(t)).wantNothing()

	c := dialOnly(t, SSHBanner(t))
	banner := make([]byte, len("SSH-2.0-OpenSSH_9.2\r\n"))
	if _, err := io.ReadFull(c.conn, banner); err != nil || string(banner) != "SSH-2.0-OpenSSH_9.2\r\n" {
		t.Errorf("banner = %q, %v", banner, err)
	}

	c = dialOnly(t, HTTP(t))
	c.sendConnect(false)
	answer, err := io.ReadAll(c.conn)
	if string(answer) != "HTTP/1.1 400 Bad Request\r\n\r\n" || err != nil {
		t.Errorf("answer = %q, %v", answer, err)
	}

	if conn, err := net.Dial("tcp", Refused(t)); err == nil {
		conn.Close()
		t.Error("somebody answers")
	}
}
