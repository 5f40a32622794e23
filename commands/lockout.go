package commands

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// identities are the identities of a session that zksh knows.
type identities struct {
	digests []string          // ACL ids of the digest credentials
	told    []zkconn.Identity // answer of whoami
	known   bool              // whether the server has answered whoami
	super   bool              // whether ZooKeeper may grant the session every permission, whatever the ACLs are
}

// admits reports whether an ACL may permit the session to change that ACL. It returns false only if
// the ACL certainly does not permit it.
func (ids identities) admits(acl []zk.ACL) bool {
	return ids.super || slices.ContainsFunc(acl, func(e zk.ACL) bool { return e.Perms&zk.PermAdmin != 0 && ids.mayMatch(e) })
}

// mayMatch reports whether an ACL entry may match one of the identities.
func (ids identities) mayMatch(e zk.ACL) bool {
	switch e.Scheme {
	case "digest":
		return slices.Contains(ids.digests, e.ID)
	case "ip", "sasl", "x509":
		return !ids.known || slices.ContainsFunc(ids.told, func(i zkconn.Identity) bool {
			switch {
			case i.Scheme != e.Scheme:
				return false
			case e.Scheme == "ip":
				return inNetwork(i.User, e.ID)
			case e.Scheme == "sasl" && i.User == "super": // it matches every entry of the scheme (SASLAuthenticationProvider)
				return true
			}
			return i.User == e.ID
		})
	}
	return true // everybody, the session itself, or a scheme that only the server can evaluate
}

// inNetwork reports whether an address may belong to a network, which is an address with or without
// the number of its leading bits. It returns true if it cannot parse one of them.
func inNetwork(address, network string) bool {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return true
	}
	if single, err := netip.ParseAddr(network); err == nil {
		return single == addr
	}
	prefix, err := netip.ParsePrefix(network)
	return err != nil || prefix.Contains(addr)
}

// identify asks the server for the identities of the session, in a session of its own: servers
// before 3.7 close the connection on which they are asked.
func identify(ctx context.Context, env *Env) (ids identities) {
	ids.digests = env.Session.Digests()
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	own, err := env.Session.Second()
	if err != nil {
		return ids
	}
	ids.told, err = zkconn.Do(ctx, own, zkconn.WhoAmI())
	ids.known = err == nil
	switch {
	case ids.known:
		ids.super = slices.ContainsFunc(ids.told, func(i zkconn.Identity) bool { return i.Scheme == "super" })
	case errors.Is(err, zkconn.Unimplemented): // the server cannot say whether it accepted the password of a super user
		ids.super = slices.ContainsFunc(ids.digests, func(id string) bool { return strings.HasPrefix(id, "super:") })
	}
	_ = CleanUp(ctx, own.Close) // the session expires even if it cannot be closed
	return ids
}

// identifyTimeout is the time limit of identify. Without the answer, setAcl asks less often.
const identifyTimeout = 3 * time.Second

// askLockOut asks the user for confirmation before a command writes an ACL that the user could not
// change again. It does not ask if the server would reject the write anyway.
func askLockOut(ctx context.Context, env *Env, path string, acl []zk.ACL, version int32) error {
	certain := identities{digests: env.Session.Digests(), known: true}
	if env.Mode != ByHand || certain.admits(acl) {
		return nil
	}
	ids := identify(ctx, env)
	if ids.admits(acl) {
		return nil
	}
	access, err := zkconn.Do(ctx, env.Session, zkconn.GetACL(path))
	switch {
	// A session that may not read the ACL may not change it either, so the server will reject the
	// write.
	case errors.Is(err, zkconn.NoAuth):
		return nil
	case err != nil:
		return err
	case version != -1 && access.Stat.Aversion != version, !ids.admits(access.ACL):
		return nil
	}
	return env.AskToContinue(ctx, fmt.Sprintf("with this ACL, you will not be able to change the ACL of %s again, and undo cannot restore it", path))
}

// noteNoHash prints a remark for each digest entry without a password hash. Nobody can authenticate
// as the user of such an entry. Commands call it before they write the ACL, and before askLockOut.
func noteNoHash(env *Env, acl []zk.ACL) {
	for _, e := range acl {
		user, hash, ok := strings.Cut(e.ID, ":")
		if !ok || e.Scheme != "digest" || strings.Contains(hash, ":") { // the server rejects an id with two colons
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(hash); err != nil || len(sum) != sha1.Size {
			env.Screen.Note(fmt.Sprintf("digest:%s:… contains no password hash, so nobody gets its permissions; to grant them to your own user, run addauth and use auth::%s", user, permString(e.Perms)))
		}
	}
}
