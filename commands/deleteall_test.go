package commands

import "testing"

func TestDeleteQuestion(t *testing.T) {
	for want, got := range map[string]string{
		"delete /a, which has no children (not ephemeral)? [y/N] ":        deleteQuestion("/a", 0, "not ephemeral", ""),
		"delete /a and the znode below it (1 ephemeral) on @prod? [y/N] ": deleteQuestion("/a", 1, "1 ephemeral", "@prod"),
		"delete /a and the 3 znodes below it (none ephemeral)? [y/N] ":    deleteQuestion("/a", 3, "none ephemeral", ""),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
