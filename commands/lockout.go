package commands

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// lockedOut reports whether an ACL certainly prevents a session from changing that ACL again.
// digests are the session's digest identities. If the ACL has entries with other schemes, only the
// server knows whether they match, so lockedOut returns false.
func lockedOut(acl []zk.ACL, digests []string) bool {
	super := slices.ContainsFunc(digests, func(id string) bool { return strings.HasPrefix(id, "super:") })
	return !super && !slices.ContainsFunc(acl, func(e zk.ACL) bool {
		return e.Perms&zk.PermAdmin != 0 && (e.Scheme != "digest" || slices.Contains(digests, e.ID))
	})
}

// askLockOut asks the user for confirmation before a command writes an ACL that the user could not
// change again. It does not ask if the server would reject the write anyway.
func askLockOut(ctx context.Context, env *Env, path string, acl []zk.ACL, version int32) error {
	digests := env.Session.Digests()
	if env.Mode != ByHand || !lockedOut(acl, digests) {
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
	case version != -1 && access.Stat.Aversion != version, lockedOut(access.ACL, digests):
		return nil
	}
	return env.AskToContinue(ctx, fmt.Sprintf("with this ACL, you will not be able to change the ACL of %s again, and undo cannot restore it", path))
}

// noteNoHash prints a remark for each digest entry without a password hash. Nobody can authenticate
// as the user of such an entry.
func noteNoHash(env *Env, acl []zk.ACL) {
	for _, e := range acl {
		user, hash, ok := strings.Cut(e.ID, ":")
		if sum, err := base64.StdEncoding.DecodeString(hash); e.Scheme == "digest" && ok && (err != nil || len(sum) != sha1.Size) {
			env.Screen.Note(fmt.Sprintf("digest:%s:… contains no password hash, so nobody gets its permissions; to grant them to your own user, run addauth and use auth::%s", user, permString(e.Perms)))
		}
	}
}
