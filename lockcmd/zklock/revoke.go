package zklock

import "strings"

// RevokeMessage asks the holder of a lock to release it. Another client writes it at the
// beginning of the data of the holder's znode. Curator uses the same message, but ignores it if
// more data follows.
const RevokeMessage = "__REVOKE__"

// UnlockMessage is the same request in the form that ZooKeeper's own recipes use: it is the
// complete data of the holder's znode.
const UnlockMessage = "unlock"

// asksForRelease reports whether data, the content of a holder's znode, asks the holder to
// release the lock.
func asksForRelease(data []byte) bool {
	text := string(data)
	return text == UnlockMessage || strings.HasPrefix(text, RevokeMessage)
}
