//go:build unix

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

var oracleTime = flag.Duration("oracle", 5*time.Second, "how long TestLocksOverCuts cuts the connections to each server")

// oracle is the command under a lock. The kernel knows the holders of the lock on the file held:
// flock fails if another process holds it, and the kernel releases it when the last process with
// the file open exits.
const oracle = `exec 9>>held
flock -n "-$1" 9 || echo double >>log
echo in >>log
sleep "$2"
echo out >>log`

// Two shells take a lock in turns while the test cuts their connections at random moments, one
// at a time or both. The oracle never sees two holders that exclude each other.
func TestLocksOverCuts(t *testing.T) {
	zktest.NeedProgram(t, "flock", "util-linux")
	for mode, server := range map[string]struct {
		every time.Duration // longest time between two cuts
		both  bool          // cut both, because a cut of one connection may release its lock at once
	}{
		"raftkeeper": {every: 600 * time.Millisecond},
		"clickhouse": {every: 600 * time.Millisecond, both: true},
		"newidkeep":  {every: 4 * time.Second},
		"expired":    {every: 4 * time.Second},
	} {
		t.Run(mode, func(t *testing.T) {
			box, dir := zktest.Faulty(t, mode), t.TempDir()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			end := time.After(*oracleTime)
			var shells sync.WaitGroup
			var proxies []*zktest.Proxy
			for range 2 {
				p := zktest.NewProxy(t, box.Addr())
				proxies = append(proxies, p)
				shells.Go(func() { takeTurns(ctx, t, dir, p.Addr()) })
			}
			cuts := 0
			for over := false; !over; {
				select {
				case <-time.After(rand.N(server.every)):
				case <-end:
					over = true
				}
				if cuts++; server.both || rand.N(2) == 0 {
					box.Cut()
				} else {
					proxies[rand.N(2)].Cut()
				}
			}
			count := func(word string) int {
				log, err := os.ReadFile(filepath.Join(dir, "log"))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
				return strings.Count(string(log), word+"\n")
			}
			// Once the cuts end, the shells take turns again.
			cut := count("out")
			for wait := zktest.Within(t); wait.Err() == nil && count("out") == cut; {
				time.Sleep(50 * time.Millisecond)
			}
			stop()
			shells.Wait()
			t.Logf("%d acquisitions, of which %d were not cut short; %d cuts; %d double holders", count("in"), count("out"), cuts, count("double"))
			if count("double") > 0 {
				t.Error("two held the lock at a time")
			}
			if count("out") == cut {
				t.Error("nobody holds the lock any more")
			}
		})
	}
}

// takeTurns runs shells one after the other until ctx is cancelled. Each takes the lock /l again
// and again, in a random mode.
func takeTurns(ctx context.Context, t *testing.T, dir, server string) {
	for ctx.Err() == nil {
		var script strings.Builder
		for range 1000 {
			kind := []string{"lock", "wlock", "rlock"}[rand.N(3)]
			how := "x"
			if kind == "rlock" {
				how = "s"
			}
			fmt.Fprintf(&script, "%s -w 20s /l -- sh oracle.sh %s 0.%03d\n", kind, how, rand.N(150))
		}
		if err := os.WriteFile(filepath.Join(dir, "oracle.sh"), []byte(oracle), 0o600); err != nil {
			t.Error(err)
			return
		}
		shell := exec.CommandContext(ctx, "zksh", "-k", "-q", "-server", server, "-timeout", "2000")
		shell.Cancel = func() error { return shell.Process.Signal(syscall.SIGTERM) }
		shell.Dir, shell.Env, shell.Stdin = dir, homeEnv(dir), strings.NewReader(script.String())
		_ = shell.Run() // a lost lock or the signal decides the status
	}
}
