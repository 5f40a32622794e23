//go:build unix

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// heldThroughACut lists the commands that hold a lock while the connection is cut, each with the
// commands that wait meanwhile and must not run at the same time.
var heldThroughACut = map[string][]string{"lock": {"lock", "rlock", "wlock"}, "rlock": {"wlock"}, "wlock": {"rlock", "wlock"}}

// If the connection is cut while a lock is held, the lock ends if the server ends the session
// too: the command is terminated, the exit status reports a lost lock, and no other client's
// command runs at the same time. If the session continues, the command may continue too.
func TestCutWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	for mode, server := range map[string]struct {
		outlives bool // the session outlives its connection
		known    bool // zksh knows in time that the lock is lost
	}{
		"clickhouse": {known: true}, "newidkeep": {known: true}, "expired": {known: true}, "raftkeeper": {true, true},
		"newid": {}, // deletes the lock's znode at once, which zksh knows only afterwards
	} {
		for held, nexts := range heldThroughACut {
			for _, next := range nexts {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, held, next), func(t *testing.T) {
					t.Parallel()
					box := zktest.Faulty(t, mode)
					began, ended := filepath.Join(t.TempDir(), "began"), filepath.Join(t.TempDir(), "ended")
					holder := openPipeline(t, "-server", box.Addr(), "-timeout", "12000", held, "/l", "--", "sh", "-c",
						fmt.Sprintf("echo $$ > %s; sleep 4; echo > %s", began, ended))
					zktest.Eventually(t, "the lock is held", func() bool { return exists(began) })
					box.Cut()
					rival := openPipeline(t, "-server", box.Addr(), "-timeout", "12000", next, "-w", "25s", "/l", "--", "sh", "-c",
						fmt.Sprintf("case $(ps -o stat= -p $(cat %s)) in ''|Z*) exit 0;; esac; exit 9", began))
					begin := time.Now()
					switch status, whole := exitStatus(t, holder.cmd), exists(ended); {
					case status == 74 && !whole && !server.outlives: // lost, or presumed lost
					case status == 0 && whole && server.outlives:
					default:
						t.Errorf("exit status %d after %s; the command ran to its end: %v", status, time.Since(begin), whole)
					}
					if got := exitStatus(t, rival.cmd); got != 0 && (server.known || got != 9) {
						t.Errorf("the rival's exit status is %d", got)
					}
					if t.Failed() {
						t.Logf("the holder said:\n%s\nthe rival said:\n%s", holder.errs.String(), rival.errs.String())
					}
				})
			}
		}
	}
}
