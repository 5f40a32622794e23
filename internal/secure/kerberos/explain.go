package kerberos

import (
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/messages"

	"github.com/zksh/zksh/internal/peer"
)

func skewError(ahead time.Duration) error {
	than := "ahead of"
	if ahead < 0 {
		than = "behind"
	}
	return fmt.Errorf("the clock of the KDC is %s %s that of this computer, "+
		"which is more than Kerberos allows (5 minutes); correct the clock",
		ahead.Abs().Round(time.Second), than)
}

// explain returns a helpful error for the KDC's answer to a request for a ticket-granting ticket.
func (w *who) explain(err error) error {
	refused, ok := errors.AsType[messages.KRBError](err)
	if !ok {
		return err
	}
	switch refused.ErrorCode {
	case errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN:
		return fmt.Errorf("the KDC does not know the principal %s; check principal in the JAAS file", w)
	case errorcode.KDC_ERR_PREAUTH_FAILED:
		return fmt.Errorf("the KDC rejected the key of %s in the keytab %s: the key is wrong or outdated; "+
			"get a new keytab", w, w.keytab)
	case errorcode.KDC_ERR_CLIENT_REVOKED:
		return fmt.Errorf("the KDC has locked the principal %s; ask its administrator", w)
	case errorcode.KDC_ERR_KEY_EXPIRED, errorcode.KDC_ERR_NAME_EXP:
		return fmt.Errorf("the principal %s or its key has expired; ask the administrator of the KDC", w)
	case errorcode.KDC_ERR_ETYPE_NOSUPP:
		return fmt.Errorf("the KDC supports none of the encryption types of the keys of %s in the keytab %s; "+
			"get a new keytab", w, w.keytab)
	}
	return explainRefusal(refused)
}

// explainService returns a helpful error for the KDC's answer to a request for a service ticket.
func (l *Login) explainService(err error, service, realm string) error {
	refused, ok := errors.AsType[messages.KRBError](err)
	if !ok {
		return err
	}
	if refused.ErrorCode == errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN {
		return fmt.Errorf("the KDC of the realm %s does not know the service %s; "+
			"connect to the server by its full host name, "+
			"or set zookeeper.server.principal or zookeeper.sasl.client.username in the client configuration",
			peer.Printable(realm), peer.Printable(service))
	}
	return explainRefusal(refused)
}

func explainRefusal(refused messages.KRBError) error {
	switch refused.ErrorCode {
	case errorcode.KRB_AP_ERR_SKEW:
		return skewError(time.Until(refused.STime))
	case errorcode.KRB_AP_ERR_TKT_EXPIRED:
		return errors.New("the KDC says that the Kerberos ticket has expired; get a new one with kinit")
	}
	return fmt.Errorf("the KDC rejected the request: %s", peer.Printable(refused.Error()))
}
