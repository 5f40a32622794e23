package kerberos

import (
	"crypto/rand"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

var errUnproved = errors.New("the server has not proved its identity")

// The numbers of the tokens of RFC 4121.
const (
	tokenAPReq = 0x0100
	tokenAPRep = 0x0200
	tokenError = 0x0300
)

// acceptorSubkey is the flag of tokens that are protected by a key that the server has chosen.
const acceptorSubkey = 4

// noLayer is the security layer that the client chooses: none. TLS protects connections instead.
const noLayer = 1

// establish runs the client's side of the SASL mechanism GSSAPI (RFC 4752) with Kerberos (RFC
// 4121). It returns nil only if the server has proved that it has the service's key.
func establish(t *ticket, send func([]byte) ([]byte, error)) (err error) {
	defer func() { // the library panics on some tokens
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: it sent a malformed token: %v", errUnproved, r)
		}
	}()
	auth, request, err := apRequest(t)
	if err != nil {
		return err
	}
	proof, err := send(frame(tokenAPReq, request))
	if err != nil {
		return err
	}
	part, err := verifyReply(proof, t.key, auth)
	if err != nil {
		return err
	}
	key, keyFlag := auth.SubKey, byte(0)
	if len(part.Subkey.KeyValue) > 0 {
		key, keyFlag = part.Subkey, acceptorSubkey
	}
	answer, err := send([]byte{})
	if err != nil {
		return err
	}
	offer, err := unwrap(answer, key, keyFlag, uint64(part.SequenceNumber))
	if err != nil {
		return err
	}
	if len(offer) != 4 || offer[0]&noLayer == 0 {
		return errors.New("the server requires a security layer of SASL, which zksh does not support; " +
			"set the server's quality of protection to auth")
	}
	w := gssapi.WrapToken{Flags: keyFlag, SndSeqNum: uint64(auth.SeqNumber),
		Payload: append([]byte{noLayer, 0, 0, 0}, t.owner()...)}
	if err := w.SetCheckSum(key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return err
	}
	w.EC = uint16(len(w.CheckSum))
	token, err := w.Marshal()
	if err != nil {
		return err
	}
	last, err := send(token)
	if err == nil && len(last) > 0 {
		err = errors.New("the server sent another SASL token after the last one")
	}
	return err
}

// apRequest returns a request to the service, and the authenticator in it.
func apRequest(t *ticket) (types.Authenticator, []byte, error) {
	auth, err := types.NewAuthenticator(t.realm, t.cname)
	if err != nil {
		return auth, nil, err
	}
	auth.SubKey = types.EncryptionKey{KeyType: t.key.KeyType, KeyValue: make([]byte, len(t.key.KeyValue))}
	if _, err := rand.Read(auth.SubKey.KeyValue); err != nil {
		return auth, nil, err
	}
	sum := make([]byte, 24) // RFC 4121, 4.1.1: length of the channel bindings, which are empty, and flags
	sum[0], sum[20] = 16, gssapi.ContextFlagMutual|gssapi.ContextFlagInteg|gssapi.ContextFlagSequence
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	req, err := messages.NewAPReq(t.Ticket, t.key, auth)
	if err != nil {
		return auth, nil, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	b, err := req.Marshal()
	return auth, b, err
}

// verifyReply verifies the server's proof that it could decrypt the ticket, and with the ticket's
// session key this authenticator.
func verifyReply(token []byte, key types.EncryptionKey,
	auth types.Authenticator) (part messages.EncAPRepPart, err error) {
	id, b, err := unframe(token)
	if err != nil {
		return part, err
	}
	if id == tokenError {
		var refused messages.KRBError
		if err := refused.Unmarshal(b); err != nil {
			return part, fmt.Errorf("%w: it sent a malformed token", errUnproved)
		}
		return part, fmt.Errorf("%w: %w", ErrRefused, explainRefusal(refused))
	}
	var rep messages.APRep
	if id != tokenAPRep || rep.Unmarshal(b) != nil {
		return part, fmt.Errorf("%w: it sent a token of another kind", errUnproved)
	}
	if b, err = crypto.DecryptEncPart(rep.EncPart, key, keyusage.AP_REP_ENCPART); err != nil {
		return part, fmt.Errorf("%w: %w", errUnproved, err)
	}
	if err := part.Unmarshal(b); err != nil {
		return part, fmt.Errorf("%w: %w", errUnproved, err)
	}
	if part.CTime.Unix() != auth.CTime.Unix() || part.Cusec != auth.Cusec {
		return part, fmt.Errorf("%w: it answered another request", errUnproved)
	}
	return part, nil
}

// wrapHeader is the length of the header of a wrap token.
const wrapHeader = 16

// unwrap verifies a wrap token (RFC 4121, 4.2.6.2) and returns its payload.
func unwrap(b []byte, key types.EncryptionKey, keyFlag byte, seq uint64) ([]byte, error) {
	if len(b) > wrapHeader { // undo the rotation, which the library ignores
		body := b[wrapHeader:]
		n := int(binary.BigEndian.Uint16(b[6:8])) % len(body)
		b = slices.Concat(b[:wrapHeader], body[n:], body[:n])
	}
	var w gssapi.WrapToken
	if err := w.Unmarshal(b, true); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnproved, err)
	}
	const sentByAcceptor = 1
	if w.Flags != sentByAcceptor|keyFlag || w.SndSeqNum != seq {
		return nil, fmt.Errorf("%w: its token has the wrong flags or sequence number", errUnproved)
	}
	if ok, err := w.Verify(key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok {
		return nil, fmt.Errorf("%w: %w", errUnproved, err)
	}
	return w.Payload, nil
}

// mechanism is the DER encoding of the object identifier of Kerberos, 1.2.840.113554.1.2.2.
var mechanism = []byte{0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2}

func frame(id uint16, message []byte) []byte {
	b := binary.BigEndian.AppendUint16(slices.Clone(mechanism), id)
	return asn1tools.AddASNAppTag(append(b, message...), 0)
}

func unframe(b []byte) (id uint16, message []byte, err error) {
	if len(b) == 0 {
		return 0, nil, fmt.Errorf("%w: it does not use Kerberos, or it has rejected the ticket and also serves "+
			"clients without one", errUnproved)
	}
	var outer asn1.RawValue
	rest, err := asn1.Unmarshal(b, &outer)
	n := len(mechanism)
	if err != nil || len(rest) > 0 || outer.Class != asn1.ClassApplication || len(outer.Bytes) < n+2 ||
		!slices.Equal(outer.Bytes[:n], mechanism) {
		return 0, nil, fmt.Errorf("%w: it sent a token that is not of Kerberos", errUnproved)
	}
	return binary.BigEndian.Uint16(outer.Bytes[n:]), outer.Bytes[n+2:], nil
}
