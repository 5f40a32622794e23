package zklock

import "strings"

// RevokeMessage in the data of a holder's znode asks the holder to release the lock. It is
// Curator's message; Curator ignores data with anything after it.
const RevokeMessage = "__REVOKE__"

// UnlockMessage is the same request in ZooKeeper's own recipes.
const UnlockMessage = "unlock"

// asksForRelease reports whether a znode's data is a request to release the lock.
func asksForRelease(data []byte) bool {
	text := string(data)
	return text == UnlockMessage || strings.HasPrefix(text, RevokeMessage)
}
