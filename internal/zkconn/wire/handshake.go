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

// noPasswd is the session password in a connect request for a new session.
var noPasswd = make([]byte, 16)

// hello returns the connect request and the id of the requested session, or 0 for a new session.
// zksh sends it in place of go-zookeeper's request, which lacks the highest zxid that zksh has
// seen and the flag that allows a read-only server.
func (l *Link) hello() (frame []byte, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e jute.Encoder
	e.Int(4 + 8 + 4 + 8 + 4 + int32(len(l.passwd)) + 1) // length of the remaining frame
	e.Int(0)                                            // protocol version
	e.Long(l.lastZxid)
	e.Int(int32(l.timeout.Milliseconds()))
	e.Long(l.id)
	e.Buffer(l.passwd)
	e.Bool(l.cfg.ReadOnly)
	return e.B, l.id
}

// refusedBy returns the error for a connect reply that contains an error code. Often the reason
// is that the server has lost its quorum, and accepts only read-only clients.
func (l *Link) refusedBy(code int32) error {
	if code == NotReadOnly && !l.cfg.ReadOnly {
		return fmt.Errorf("the server rejected the session: %w; the server is in read-only mode; to connect to it anyway, add -r", l.cfg.Refusal(code))
	}
	return fmt.Errorf("the server rejected the session: %w", l.cfg.Refusal(code))
}

// A welcome is the content of a server's connect reply.
type welcome struct {
	timeout  time.Duration
	id       int64
	passwd   []byte
	readOnly bool
}

// handshake handles the connect reply in body. If the server grants the session, it queues the
// requests that must precede all others on this connection (credentials, watches).
func (k *Conn) handshake(body []byte) error {
	if k.session != k.l.session() {
		return errSessionChanged
	}
	w, err := k.l.welcomed(body, k.session)
	switch {
	case err != nil:
		return err
	case w.id == 0:
		clear(body[4:16]) // go-zookeeper recognizes an expired session only if the timeout and the id are zero
		if !k.l.expired() {
			return errors.New("the server rejected the request to open a session")
		}
		// go-zookeeper opens a new connection for the new session, but does not close this one.
		k.release()
		return k.tcp.Close()
	}
	if err := k.authenticate(); err != nil {
		return err
	}
	k.live, k.timeout = true, w.timeout
	binary.BigEndian.PutUint32(body[4:], uint32(k.l.bounded(w.timeout).Milliseconds())) // go-zookeeper derives its ping interval and timeouts from this value
	k.release()
	k.l.established(k, w)
	return nil
}

// welcomed decodes the connect reply in body. requested is the id of the session in the connect
// request. The result has the id 0 if that session is over.
func (l *Link) welcomed(body []byte, requested int64) (welcome, error) {
	d := jute.NewDecoder(body)
	version := d.Int()
	w := welcome{timeout: time.Duration(d.Int()) * time.Millisecond, id: d.Long(), passwd: bytes.Clone(d.Buffer())}
	w.readOnly = d.Err() == nil && len(d.Rest()) > 0 && d.Bool()
	switch {
	case d.Err() != nil && len(body) == 16: // an error reply, which consists only of a header
		return w, l.refusedBy(int32(binary.BigEndian.Uint32(body[12:])))
	case d.Err() != nil:
		return w, notZooKeeper(body[:min(len(body), 60)])
	}
	return w.interpret(version, requested)
}

// rejectingVersion is the protocol version in a connect reply with which ClickHouse Keeper and
// RaftKeeper reject a connection.
const rejectingVersion = 42

var (
	errNoLeader       = errors.New("the server has no leader")
	errSessionChanged = errors.New("the session ended while zksh was connecting")
)

// interpret decides whether a connect reply grants the session. requested is the id of the
// session in the connect request, or 0 for a new session. If the session is over, interpret
// returns a welcome with id 0.
//
// Like ZooKeeper's own client, it takes a timeout of 0 or less as the end of the session,
// whatever the id. RaftKeeper reports an expired session with such a timeout, the old id, and
// rejectingVersion. In all other replies, that version only means that there is no leader.
func (w welcome) interpret(version int32, requested int64) (welcome, error) {
	over := w.timeout <= 0
	switch {
	case over && requested != 0:
		return welcome{}, nil
	case version == rejectingVersion && (requested == 0 || w.id != requested):
		return w, errNoLeader
	case over:
		return welcome{}, nil
	}
	return w, nil
}

// maxConnectReply is the maximum size of a connect reply, in bytes. ZooKeeper's connect reply has
// 41 bytes, so a peer that sends more than the maximum is not a ZooKeeper server.
const maxConnectReply = 1024

// notZooKeeper returns the error for a server that does not speak ZooKeeper's protocol. answer is
// the beginning of the data that it sent.
func notZooKeeper(answer []byte) error {
	if secure.SpeaksTLS(answer) {
		return errors.New("the server's port requires TLS; add --tls")
	}
	s, _, _ := strings.Cut(strings.ToValidUTF8(string(answer), "?"), "\n")
	return fmt.Errorf("the server does not speak the ZooKeeper protocol: it answered %q", strings.TrimRight(s, "\r"))
}

// handshakeCause returns an error that says why the server did not answer the connect request,
// often with a hint for the user. err is the error that ended the connection.
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
