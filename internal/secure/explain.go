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

// An Error explains why no connection is possible, and how to fix it.
type Error struct {
	Problem string
	cause   error
}

func problem(text string, cause error) *Error { return &Error{text, cause} }

func (e *Error) Error() string { return e.Problem }

// Unwrap returns the underlying error, or nil if zksh itself found the problem.
func (e *Error) Unwrap() error { return e.cause }

// The TLS alerts (RFC 8446) that alertMessage explains.
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

// noCertificate is the error message for a server that requires a client certificate when none is
// set.
const noCertificate = "the server requires a client certificate; set it with --cert FILE, or with zookeeper.ssl.keyStore.location in the client configuration"

// explain returns a helpful message for an error that ended a TLS handshake, or that ended the
// connection directly after the handshake.
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
		return problem(c.alertMessage(a), err)
	}
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return problem("the server does not use TLS on this port: its answer began with "+
			quoteBytes(e.RecordHeader[:]), err)
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || peer.Cut(err)
	switch {
	case ended && c.certRequested.Load() && c.t.clientCert == nil:
		return problem(noCertificate, err)
	case ended && c.ConnectionState().HandshakeComplete:
		return err
	case ended:
		return problem("the server closed the connection during the TLS handshake; is this a port without TLS?", err)
	case strings.Contains(err.Error(), "protocol version"):
		return problem("the server and zksh have no TLS version in common: zksh offers "+c.t.versionRange(), err)
	}
	return problem("TLS handshake failed: "+peer.Printable(strings.TrimPrefix(err.Error(), "tls: ")), err)
}

// alertMessage returns the message for a TLS alert that the server sent.
func (c *Conn) alertMessage(a tls.AlertError) string {
	wants := c.certRequested.Load()
	switch a {
	case certificateRequired:
		return noCertificate
	case badCertificate, unsupportedCertificate, certificateRevoked, certificateExpired, certificateUnknown, unknownCA,
		accessDenied, handshakeFailure:
		switch {
		case wants && c.t.clientCert == nil:
			return noCertificate
		case wants:
			return "the server rejected the client certificate, " + subject(c.t.clientCert.Leaf) + ", issued by " +
				peer.Printable(c.t.clientCert.Leaf.Issuer.String()) + " (" + alertText(a) + ")"
		case a == handshakeFailure:
			return "the server and zksh have no cipher suite in common (" + alertText(a) + ")"
		}
	case insufficientSecurity:
		return "the server and zksh have no cipher suite in common (" + alertText(a) + ")"
	case protocolVersion:
		return "the server and zksh have no TLS version in common: the server rejected " + c.t.versionRange()
	case unrecognizedName:
		return "the server rejected the host name that zksh sent; set another name with --tls-name NAME (" +
			alertText(a) + ")"
	}
	return "the server rejected the TLS handshake (" + alertText(a) + ")"
}

func alertText(a tls.AlertError) string { return strings.TrimPrefix(a.Error(), "tls: ") }

// alert returns the TLS alert from the server that caused err. It returns false if err has another
// cause. crypto/tls wraps the alert in an unexported type, so alert recognizes it by its text.
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

// versionRange returns the names of the TLS versions that zksh offers.
func (t *TLS) versionRange() string {
	if t.min == t.max {
		return tls.VersionName(t.min)
	}
	return tls.VersionName(t.min) + " to " + tls.VersionName(t.max)
}

func quoteBytes(b []byte) string { return `"` + peer.Printable(string(b)) + `"` }

// SpeaksTLS reports whether the first bytes of a server's reply are a TLS alert. Callers use it
// to explain a reply that is not in ZooKeeper's format.
func SpeaksTLS(reply []byte) bool {
	return len(reply) >= 3 && reply[0] == 0x15 && reply[1] == 3 && reply[2] <= 4
}
