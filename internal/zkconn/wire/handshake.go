package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/secure"
)

// noPasswd is the password in a connect request for a new session.
var noPasswd = make([]byte, 16)

// hello returns the connect request and the id of the requested session; 0 for a new one. It
// replaces the library's request, which lacks the highest zxid that zksh has seen and the flag for
// read-only servers.
func (l *Link) hello() (frame []byte, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e jute.Encoder
	e.Int(4 + 8 + 4 + 8 + 4 + int32(len(l.passwd)) + 1) // length of the rest
	e.Int(0)                                            // protocol version
	e.Long(l.lastZxid)
	e.Int(int32(l.timeout.Milliseconds()))
	e.Long(l.id)
	e.Buffer(l.passwd)
	e.Bool(l.cfg.ReadOnly)
	return e.B, l.id
}

// refusedBy returns the error for a connect reply with an error code. Often the server has lost its
// quorum, and accepts only read-only clients.
func (l *Link) refusedBy(code int32) error {
	if code == NotReadOnly && !l.cfg.ReadOnly {
		return fmt.Errorf("the server rejected the session: %w; the server is in read-only mode; to connect to it anyway, add -r", l.cfg.Refusal(code))
	}
	return fmt.Errorf("the server rejected the session: %w", l.cfg.Refusal(code))
}

// A welcome is a connect reply.
type welcome struct {
	timeout  time.Duration
	id       int64
	passwd   []byte
	readOnly bool
}

// handshake handles the connect reply. It queues the requests that must precede all others on this
// connection (credentials, watches).
func (k *Conn) handshake(body []byte) error {
	if k.session != k.l.session() {
		return errSessionChanged
	}
	w, err := k.l.welcomed(body, k.session)
	switch {
	case err != nil:
		return err
	case w.id == 0:
		clear(body[4:16]) // the timeout and the id: the library recognises an expiry only by these
		if !k.l.expired() {
			return errors.New("the server rejected the request to open a session")
		}
		// The library starts a new session on a new connection by itself, but
		// leaves this one open.
		k.release()
		return k.tcp.Close()
	}
	if err := k.authenticate(); err != nil {
		return err
	}
	k.live, k.timeout = true, w.timeout
	binary.BigEndian.PutUint32(body[4:], uint32(k.l.bounded(w.timeout).Milliseconds())) // the library derives its pings and timeouts from it
	k.release()
	k.l.established(k, w)
	return nil
}

// welcomed decodes the connect reply to a request for session asked. In the result, id 0 means that
// the session is over.
func (l *Link) welcomed(body []byte, asked int64) (welcome, error) {
	d := jute.NewDecoder(body)
	version := d.Int()
	w := welcome{timeout: time.Duration(d.Int()) * time.Millisecond, id: d.Long(), passwd: bytes.Clone(d.Buffer())}
	w.readOnly = d.Err() == nil && len(d.Rest()) > 0 && d.Bool()
	switch {
	case d.Err() != nil && len(body) == 16: // an error header instead
		return w, l.refusedBy(int32(binary.BigEndian.Uint32(body[12:])))
	case d.Err() != nil:
		return w, notZooKeeper(body[:min(len(body), 60)])
	}
	return w.judged(version, asked)
}

// rejecting is the protocol version with which ClickHouse Keeper and RaftKeeper reject a
// connection.
const rejecting = 42

var (
	errNoLeader       = errors.New("the server has no leader")
	errSessionChanged = errors.New("the session ended while zksh was connecting")
)

// judged interprets the connect reply to a request for session asked; 0 is a new one. If the
// session is over, it returns a welcome with id 0.
//
// ZooKeeper's own client takes a timeout of 0 or less as the end of the session, whatever the id.
// RaftKeeper reports an expiry in this way, with the old id and the rejecting version. Otherwise
// that version only means that there is no leader.
func (w welcome) judged(version int32, asked int64) (welcome, error) {
	over := w.timeout <= 0
	switch {
	case over && asked != 0:
		return welcome{}, nil
	case version == rejecting && (asked == 0 || w.id != asked):
		return w, errNoLeader
	case over:
		return welcome{}, nil
	}
	return w, nil
}

// maxConnectReply bounds a connect reply, in bytes. ZooKeeper's has 41, so a peer that sends more
// than this is not a ZooKeeper server.
const maxConnectReply = 1024

// notZooKeeper returns the error of a peer that answers in another protocol.
func notZooKeeper(said []byte) error {
	if secure.SpeaksTLS(said) {
		return errors.New("the server's port requires TLS; add --tls")
	}
	s, _, _ := strings.Cut(strings.ToValidUTF8(string(said), "?"), "\n")
	return fmt.Errorf("the server does not speak the ZooKeeper protocol: it answered %q", strings.TrimRight(s, "\r"))
}

// handshakeCause returns the reason why a server did not answer the connect request, and a hint.
func (k *Conn) handshakeCause(err error) error {
	const hungUp = "the server closed the connection without answering"
	plain, readOnly := k.Agreed == nil, k.l.cfg.ReadOnly
	closed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	var timeout net.Error
	switch {
	case errors.As(err, new(*secure.Error)):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("the server accepted the connection, but did not answer in time")
	case closed && errors.Is(err, errDuringSASL):
		return errors.New("the server closed the connection during SASL authentication, as ZooKeeper 3.4 does when it rejects the credentials")
	case closed && plain && readOnly:
		return errors.New(hungUp + ", perhaps because this port expects TLS (use --tls)")
	case closed && plain:
		return errors.New(hungUp + ", perhaps because this port expects TLS (use --tls), or because the server has no quorum (use -r)")
	case closed && !readOnly:
		return errors.New(hungUp + ", perhaps because the server has no quorum (use -r)")
	case closed:
		return errors.New(hungUp)
	}
	return plainCause(err)
}
