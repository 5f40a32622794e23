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
			for _, o := range []Options{{}, {Stat: true}, {Access: true}} {
				src, err := OnServer(t.Context(), s.Client, "/", false)
				zktest.Must(t, err)
				w, err := Begin(t.Context(), src, "/", o)
				zktest.Must(t, err)
				for s, now := range w.Steps() {
					if err = now; s != nil && s.Kind == Enter && len(s.Path()) > 2<<20 {
						t.Fatalf("it came to a path of %d bytes", len(s.Path()))
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
