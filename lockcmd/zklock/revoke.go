package zklock

import "strings"

// RevokeMessage in the data of a holder's znode asks him to let go. It is
// Curator's; with anything behind it Curator does not take notice.
const RevokeMessage = "__REVOKE__"

// UnlockMessage does the same in ZooKeeper's own recipes.
const UnlockMessage = "unlock"

// asksToLetGo tells whether a znode's data is a request to release the lock.
func asksToLetGo(data []byte) bool {
	text := string(data)
	return text == UnlockMessage || strings.HasPrefix(text, RevokeMessage)
}
