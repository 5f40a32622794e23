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

// noPasswd is what goes with no session.
var noPasswd = make([]byte, 16)

// hello is the connect request, for the session there is or for a new one, and the id
// of that session; 0 for a new one. It
// takes the place of the library's, which knows neither the highest zxid that we
// have seen nor the wish for a read-only server.
func (l *Link) hello() (frame []byte, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e jute.Encoder
	e.Int(4 + 8 + 4 + 8 + 4 + int32(len(l.passwd)) + 1) // what follows
	e.Int(0)                                            // protocol version
	e.Long(l.lastZxid)
	e.Int(int32(l.timeout.Milliseconds()))
	e.Long(l.id)
	e.Buffer(l.passwd)
	e.Bool(l.cfg.ReadOnly)
	return e.B, l.id
}

// refusedBy words a connect reply that is an error. Such a server is often one
// that lost its quorum, and takes read-only clients alone.
func (l *Link) refusedBy(code int32) error {
	if code == NotReadOnly && !l.cfg.ReadOnly {
		return fmt.Errorf("the server rejected the session: %w; the server is in read-only mode; to connect to it anyway, add -r", l.cfg.Refusal(code))
	}
	return fmt.Errorf("the server rejected the session: %w", l.cfg.Refusal(code))
}

// welcome is a connect reply.
type welcome struct {
	timeout  time.Duration
	id       int64
	passwd   []byte
	readOnly bool
}

// handshake looks at the connect reply. Everything that must precede the first
// request of this connection (credentials, watches) is queued from here.
func (k *Conn) handshake(body []byte) error {
	if k.session != k.l.session() {
		return errSessionChanged
	}
	w, err := k.l.welcomed(body, k.session)
	switch {
	case err != nil:
		return err
	case w.id == 0:
		clear(body[4:16]) // the timeout and the id: the library knows no other form of an expiry
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
	binary.BigEndian.PutUint32(body[4:], uint32(k.l.bounded(w.timeout).Milliseconds())) // by which the library pings and waits
	k.release()
	k.l.established(k, w)
	return nil
}

// welcomed reads the reply to a request for a session; id 0 is that of one that is over.
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

// judged is what a connect reply means for who asked for a session, 0 for a new one. That
// of a session that is over comes back with id 0.
//
// To ZooKeeper's own client a timeout up to 0 is the end of the session, whatever the id
// is. RaftKeeper reports an expiry so, with the old id and the rejecting version, which
// otherwise only says that there is no leader.
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

// maxConnectReply is the longest connect reply, in bytes. It has 41; whoever answers with
// more is no ZooKeeper server.
const maxConnectReply = 1024

// notZooKeeper is the error of a peer that answers in another protocol.
func notZooKeeper(said []byte) error {
	if secure.SpeaksTLS(said) {
		return errors.New("the server's port requires TLS; add --tls")
	}
	s, _, _ := strings.Cut(strings.ToValidUTF8(string(said), "?"), "\n")
	return fmt.Errorf("the server does not speak the ZooKeeper protocol: it answered %q", strings.TrimRight(s, "\r"))
}

// handshakeCause words why a server gave no answer to the connect request, and what
// might help.
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
