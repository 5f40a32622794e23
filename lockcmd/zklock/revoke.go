package zklock

import "strings"

// RevokeMessage in the data of a holder's znode asks the holder to release the lock. It is
// Curator's message; Curator ignores the message if the data continues after it.
const RevokeMessage = "__REVOKE__"

// UnlockMessage in the data of a holder's znode is the same request, as ZooKeeper's own
// recipes write it.
const UnlockMessage = "unlock"

// asksForRelease reports whether a znode's data is a request to release the lock.
func asksForRelease(data []byte) bool {
	text := string(data)
	return text == UnlockMessage || strings.HasPrefix(text, RevokeMessage)
}
