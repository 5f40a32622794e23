package kerberos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/userfile"
)

// granting is a ticket-granting ticket with its session key and its owner.
type granting struct {
	tgt   messages.Ticket
	key   types.EncryptionKey
	cname types.PrincipalName
	realm string
}

// fromKeytab gets a ticket-granting ticket with a key of the keytab, and with it a ticket for the
// service.
func (l *Login) fromKeytab(ctx context.Context, service string) (*ticket, error) {
	name, realm, err := l.split()
	if err != nil {
		return nil, err
	}
	path := l.opt.Keytab
	if path == "" {
		path = l.conf.keytab
	}
	if path = strings.TrimPrefix(path, "FILE:"); path == "" {
		return nil, fmt.Errorf("no keytab is set: set keyTab in the JAAS file, "+
			"or default_keytab_name in %s", l.conf.path)
	}
	kt, err := readKeytab(path)
	if err != nil {
		return nil, err
	}
	w := &who{login: l, name: name, realm: realm, keytab: path, kt: kt}
	g, err := w.granting(ctx)
	if err != nil {
		return nil, err
	}
	t, err := l.serviceTicket(ctx, g, service)
	if err == nil {
		t.source, t.renews = "keytab "+path, true
	}
	return t, err
}

func readKeytab(path string) (kt *keytab.Keytab, err error) {
	defer func() {
		if r := recover(); r != nil {
			kt, err = nil, fmt.Errorf("the keytab %s is damaged", path)
		}
	}()
	data, err := userfile.ReadPrivate(path, maxFile, "keys")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the keytab %s does not exist", path)
	case err != nil:
		return nil, fmt.Errorf("the keytab cannot be read: %w", err)
	}
	kt = keytab.New()
	if err := kt.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("the keytab %s is damaged", path)
	}
	return kt, nil
}

// who is a principal that has keys in a keytab.
type who struct {
	login       *Login
	name, realm string
	keytab      string // file name
	kt          *keytab.Keytab
	types       []int32 // encryption types of its keys, best first
}

func (w *who) String() string { return peer.Printable(w.name + "@" + w.realm) }

// granting does the AS exchange of RFC 4120.
func (w *who) granting(ctx context.Context) (*granting, error) {
	conf := w.login.conf.library()
	cname := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, w.name)
	// Put the types of the keys in the keytab first, so that the KDC chooses one of them. It may
	// need one of the other types for the session key.
	all := w.login.conf.encryption()
	w.types = slices.DeleteFunc(slices.Clone(all), func(etype int32) bool {
		_, _, err := w.kt.GetEncryptionKey(cname, w.realm, 0, etype)
		return err != nil
	})
	conf.LibDefaults.DefaultTktEnctypeIDs = append(slices.Clone(w.types), all...)
	if len(w.types) == 0 {
		return nil, fmt.Errorf("the keytab %s has no usable key of %s; to list its keys, run: klist -ket %s",
			w.keytab, w, w.keytab)
	}
	req, err := messages.NewASReqForTGT(w.realm, conf, cname)
	if err != nil {
		return nil, err
	}
	answer, err := w.send(ctx, req)
	if refused, ok := errors.AsType[messages.KRBError](err); ok &&
		refused.ErrorCode == errorcode.KDC_ERR_PREAUTH_REQUIRED {
		if err := w.preauthenticate(&req, refused); err != nil {
			return nil, err
		}
		answer, err = w.send(ctx, req)
	}
	if err != nil {
		return nil, w.explain(err)
	}
	var rep messages.ASRep
	if err := rep.Unmarshal(answer); err != nil {
		return nil, fmt.Errorf("the KDC sent a malformed answer: %w", err)
	}
	if ok, err := rep.Verify(conf, credentials.New(w.name, w.realm).WithKeytab(w.kt), req); !ok {
		if skew := time.Until(rep.DecryptedEncPart.AuthTime); !rep.DecryptedEncPart.AuthTime.IsZero() &&
			skew.Abs() > conf.LibDefaults.Clockskew {
			return nil, skewError(skew)
		}
		return nil, fmt.Errorf("the keytab %s does not have the current key of %s, "+
			"or the answer is not from the KDC: %w", w.keytab, w, err)
	}
	return &granting{rep.Ticket, rep.DecryptedEncPart.Key, cname, w.realm}, nil
}

func (w *who) send(ctx context.Context, req messages.ASReq) ([]byte, error) {
	b, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	return w.login.ask(ctx, w.realm, b)
}

// preauthenticate adds to the request the proof that the client has the key that the KDC asks for.
func (w *who) preauthenticate(req *messages.ASReq, asked messages.KRBError) error {
	var hints types.PADataSequence
	if err := hints.Unmarshal(asked.EData); err != nil {
		return fmt.Errorf("the KDC sent a malformed answer: %w", err)
	}
	etype := w.types[0]
	for _, h := range hints {
		if h.PADataType != patype.PA_ETYPE_INFO2 {
			continue
		}
		info, err := h.GetETypeInfo2()
		if err != nil {
			return fmt.Errorf("the KDC sent a malformed answer: %w", err)
		}
		for _, i := range slices.Backward(info) {
			if slices.Contains(w.types, i.EType) {
				etype = i.EType
			}
		}
	}
	key, version, err := w.kt.GetEncryptionKey(req.ReqBody.CName, w.realm, 0, etype)
	if err != nil {
		return err
	}
	now, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return err
	}
	sealed, err := crypto.GetEncryptedData(now, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, version)
	if err != nil {
		return err
	}
	b, err := sealed.Marshal()
	if err != nil {
		return err
	}
	req.PAData = append(req.PAData, types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: b})
	return nil
}

// maxReferrals limits the number of realms between that of the client and that of the service.
const maxReferrals = 5

// serviceTicket does the TGS exchange of RFC 4120. If the service is in another realm, according
// to krb5.conf or to the KDC, it first gets a ticket for the KDC of that realm.
func (l *Login) serviceTicket(ctx context.Context, g *granting, service string) (*ticket, error) {
	conf := l.conf.library()
	_, host, _ := strings.Cut(service, "/")
	realm, wanted := g.realm, l.conf.realmOf(host)
	tgt, key := g.tgt, g.key
	for range maxReferrals {
		name := types.NewPrincipalName(nametype.KRB_NT_SRV_HST, service)
		if wanted != "" && wanted != realm {
			name = types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+wanted)
		}
		req, err := messages.NewTGSReq(g.cname, realm, conf, tgt, key, name, false)
		if err != nil {
			return nil, err
		}
		answer, err := l.sendTGS(ctx, req, realm)
		if unknown, ok := errors.AsType[messages.KRBError](err); ok &&
			unknown.ErrorCode == errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN && !conf.LibDefaults.Canonicalize {
			conf.LibDefaults.Canonicalize = true // ask for a referral to another realm
			continue
		}
		if err != nil {
			return nil, l.explainService(err, service, realm)
		}
		var rep messages.TGSRep
		if err := rep.Unmarshal(answer); err != nil {
			return nil, fmt.Errorf("the KDC sent a malformed answer: %w", err)
		}
		if err := rep.DecryptEncPart(key); err != nil {
			return nil, fmt.Errorf("the answer is not from the KDC: %w", err)
		}
		part := rep.DecryptedEncPart
		if ok, err := rep.Verify(conf, req); !ok {
			if skew := time.Until(part.StartTime); skew > conf.LibDefaults.Clockskew {
				return nil, skewError(skew)
			}
			return nil, fmt.Errorf("the KDC sent another ticket than zksh asked for: %w", err)
		}
		got := part.SName.NameString // the library does not verify it
		switch {
		case slices.Equal(got, name.NameString) && name.NameString[0] != "krbtgt":
			raw, err := rep.Ticket.Marshal()
			return &ticket{Ticket: rep.Ticket, raw: raw, key: part.Key, cname: g.cname, realm: g.realm,
				until: part.EndTime, isNew: true}, err
		case len(got) == 2 && got[0] == "krbtgt" && got[1] != realm:
			tgt, key, realm = rep.Ticket, part.Key, got[1]
		default:
			return nil, fmt.Errorf("the KDC sent a ticket for %s, not for %s",
				peer.Printable(part.SName.PrincipalNameString()), peer.Printable(service))
		}
	}
	return nil, fmt.Errorf("the KDCs refer to too many realms for the service %s", peer.Printable(service))
}

func (l *Login) sendTGS(ctx context.Context, req messages.TGSReq, realm string) ([]byte, error) {
	b, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	return l.ask(ctx, realm, b)
}

// servicePrincipal returns the name of a server, computed as in zkCli. A realm in it has no
// effect, because krb5.conf and the KDC determine the realm.
func (o Options) servicePrincipal(ctx context.Context, s Server) string {
	if name, _, _ := strings.Cut(o.ServerPrincipal, "@"); name != "" {
		return name
	}
	host := s.Host
	if !o.AsTyped {
		ctx, cancel := context.WithTimeout(ctx, lookupLimit)
		defer cancel()
		host = canonical(ctx, s)
	}
	service := o.Service
	if service == "" {
		service = "zookeeper"
	}
	return service + "/" + strings.ToLower(strings.TrimSuffix(host, "."))
}

// lookupLimit is the time limit for the reverse lookup of a server's address.
const lookupLimit = 2 * time.Second

// canonical returns the first name of the server's address, if that name resolves to the address
// again. Otherwise, it returns the name in the connect string.
func canonical(ctx context.Context, s Server) string {
	names, err := net.DefaultResolver.LookupAddr(ctx, s.IP)
	if err != nil || len(names) == 0 {
		return s.Host
	}
	back, err := net.DefaultResolver.LookupHost(ctx, names[0])
	if err != nil || !slices.Contains(back, s.IP) {
		return s.Host
	}
	return names[0]
}
