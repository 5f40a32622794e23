package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/zksh/zksh/internal/peer"
)

// Error is why a server and we do not come together, and the way out.
type Error struct {
	Problem string
	cause   error
}

func problem(text string, cause error) *Error { return &Error{text, cause} }

func (e *Error) Error() string { return e.Problem }

// Unwrap gives the cause, which may be nil.
func (e *Error) Unwrap() error { return e.cause }

// The alerts of RFC 8446 that tell something.
const (
	handshakeFailure       tls.AlertError = 40
	badCertificate         tls.AlertError = 42
	unsupportedCertificate tls.AlertError = 43
	certificateRevoked     tls.AlertError = 44
	certificateExpired     tls.AlertError = 45
	certificateUnknown     tls.AlertError = 46
	unknownCA              tls.AlertError = 48
	accessDenied           tls.AlertError = 49
	protocolVersion        tls.AlertError = 70
	insufficientSecurity   tls.AlertError = 71
	unrecognizedName       tls.AlertError = 112
	certificateRequired    tls.AlertError = 116
)

// noCertificate is what to do about a server that wants one.
const noCertificate = "the server requires a client certificate; set it with --cert FILE, or with zookeeper.ssl.keyStore.location in the client configuration"

// explain words what has ended a handshake, or a connection right behind it.
func (c *Conn) explain(err error) error {
	var known *Error
	var timeout net.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		if c.ConnectionState().HandshakeComplete {
			return err
		}
		return problem("the TLS handshake timed out; is this a TLS port?", err)
	}
	if a, ok := alert(err); ok {
		return problem(c.refusal(a), err)
	}
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return problem("the server does not use TLS on this port: its answer began with "+quoted(e.RecordHeader[:]), err)
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || peer.Cut(err)
	switch {
	case ended && c.shown.Load() && c.t.own == nil:
		return problem(noCertificate, err)
	case ended && c.ConnectionState().HandshakeComplete:
		return err
	case ended:
		return problem("the server closed the connection during the TLS handshake; is this a port without TLS?", err)
	case strings.Contains(err.Error(), "protocol version"):
		return problem("the server and zksh have no TLS version in common: zksh offers "+c.t.spoken(), err)
	}
	return problem("TLS handshake failed: "+name(strings.TrimPrefix(err.Error(), "tls: ")), err)
}

// refusal words a server's alert.
func (c *Conn) refusal(a tls.AlertError) string {
	wants := c.shown.Load()
	switch a {
	case certificateRequired:
		return noCertificate
	case badCertificate, unsupportedCertificate, certificateRevoked, certificateExpired, certificateUnknown, unknownCA, accessDenied, handshakeFailure:
		switch {
		case wants && c.t.own == nil:
			return noCertificate
		case wants:
			return "the server rejected the client certificate, " + subject(c.t.own.Leaf) + ", issued by " + name(c.t.own.Leaf.Issuer.String()) + " (" + text(a) + ")"
		case a == handshakeFailure:
			return "the server and zksh have no cipher suite in common (" + text(a) + ")"
		}
	case insufficientSecurity:
		return "the server and zksh have no cipher suite in common (" + text(a) + ")"
	case protocolVersion:
		return "the server and zksh have no TLS version in common: the server rejected " + c.t.spoken()
	case unrecognizedName:
		return "the server rejected the host name that zksh sent; set another name with --tls-name NAME (" + text(a) + ")"
	}
	return "the server rejected the TLS handshake (" + text(a) + ")"
}

func text(a tls.AlertError) string { return strings.TrimPrefix(a.Error(), "tls: ") }

// alert takes a server's alert out of an error, in which crypto/tls has it as a type
// of its own.
func alert(err error) (tls.AlertError, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return 0, false
	}
	for a := range 256 {
		if op.Err.Error() == tls.AlertError(a).Error() {
			return tls.AlertError(a), true
		}
	}
	return 0, false
}

// spoken are the protocols that we speak.
func (t *TLS) spoken() string {
	if t.min == t.max {
		return tls.VersionName(t.min)
	}
	return tls.VersionName(t.min) + " to " + tls.VersionName(t.max)
}

func quoted(b []byte) string { return `"` + name(string(b)) + `"` }

// SpeaksTLS tells of a peer's first bytes, which are no answer of ZooKeeper's, whether
// they are TLS: an alert.
func SpeaksTLS(said []byte) bool {
	return len(said) >= 3 && said[0] == 0x15 && said[1] == 3 && said[2] <= 4
}
