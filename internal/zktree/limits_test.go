package zktree

import (
	"errors"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// A walk of an endless tree stops at a limit, with an error that names the root and the depth.
func TestEndlessTree(t *testing.T) {
	for _, mode := range []string{"deep", "heavy", "wide"} {
		t.Run(mode, func(t *testing.T) {
			s := zksession.Open(t, zkconn.Config{Servers: zktest.Endless(t, mode), Timeout: zktest.Patience})
			for _, o := range []Options{{}, {Stat: true}, {Data: true, ACL: true}} {
				all, err := Walk(t.Context(), s.Client, "/", o)
				zktest.Must(t, err)
				for z, now := range all {
					if err = now; z != nil && len(z.Path) > 2<<20 {
						t.Fatalf("it came to a path of %d bytes", len(z.Path))
					}
				}
				deep, ok := errors.AsType[*tooDeepError](err)
				if !ok || deep.Root != "/" || deep.Levels < 100 || !strings.Contains(err.Error(), "too deep") {
					t.Errorf("%+v: %v", o, err)
				}
			}
		})
	}
}
