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

// lockedOut reports whether this ACL certainly denies a session with these digest identities the
// permission to change the ACL. For schemes other than digest, only the server knows whether an
// entry matches, so lockedOut returns false.
func lockedOut(acl []zk.ACL, digests []string) bool {
	super := slices.ContainsFunc(digests, func(id string) bool { return strings.HasPrefix(id, "super:") })
	return !super && !slices.ContainsFunc(acl, func(e zk.ACL) bool {
		return e.Perms&zk.PermAdmin != 0 && (e.Scheme != "digest" || slices.Contains(digests, e.ID))
	})
}

// askLockOut asks the user for confirmation before writing an ACL that the user could not change
// again. It does not ask if the server would reject the write anyway.
func askLockOut(ctx context.Context, env *Env, path string, acl []zk.ACL, version int32) error {
	digests := env.Session.Digests()
	if env.Mode != ByHand || !lockedOut(acl, digests) {
		return nil
	}
	access, err := zkconn.Do(ctx, env.Session, zkconn.GetACL(path))
	switch {
	case errors.Is(err, zkconn.NoAuth): // without permission to read the ACL, there is none to change it: the server rejects the write
		return nil
	case err != nil:
		return err
	case version != -1 && access.Stat.Aversion != version, lockedOut(access.ACL, digests):
		return nil
	}
	return env.AskToContinue(ctx, fmt.Sprintf("with this ACL, you will not be able to change the ACL of %s again, and undo cannot restore it", path))
}

// noteNoHash prints a remark for each digest entry without a password hash, because nobody can
// authenticate as the user of such an entry.
func noteNoHash(env *Env, acl []zk.ACL) {
	for _, e := range acl {
		user, hash, ok := strings.Cut(e.ID, ":")
		if sum, err := base64.StdEncoding.DecodeString(hash); e.Scheme == "digest" && ok && (err != nil || len(sum) != sha1.Size) {
			env.Screen.Note(fmt.Sprintf("digest:%s:… contains no password hash, so nobody gets its permissions; to grant them to your own user, run addauth and use auth::%s", user, permString(e.Perms)))
		}
	}
}
