//go:build unix

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/shell"
)

// played is all that a script shows for itself.
type played struct {
	out, err string
	status   int
}

// play runs a script in this process.
func play(t rapid.TB, servers, script string, cfg shell.Config) played {
	session, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	locks := lockcmd.New()
	var out, errs bytes.Buffer
	cfg.Session, cfg.Locks, cfg.Version = session, locks, "dev"
	cfg.Commands = [][]*commands.Command{commands.All(), locks.Commands()}
	cfg.Out, cfg.Err = shell.Output{W: &out}, shell.Output{W: &errs}
	if cfg.Format == "" {
		cfg.Format = render.Text
	}
	status := shell.New(cfg).RunLines(context.Background(), "script", strings.NewReader(script))
	return played{out.String(), errs.String(), status}
}

// A script shows the same whatever the width of the window.
func TestWindowsAgree(t *testing.T) {
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		script := drawScript(rt)
		format := rapid.SampledFrom([]render.Format{render.Text, render.Text, render.JSON, render.Table}).Draw(rt, "format")
		var alone played
		for _, window := range []int{1, 2, 64, 256} {
			// Each has a server that was never used: even zxids and session ids are the same.
			s := sandbox.New(sandbox.Options{Now: func() time.Time { return clock }, EnforceQuota: true})
			addr, err := s.Listen("127.0.0.1:0")
			if err != nil {
				rt.Fatal(err)
			}
			got := play(rt, addr.String(), script, shell.Config{Window: window, Format: format})
			_ = s.Close()
			got = got.without(addr.String())
			if window == 1 {
				alone = got
			} else if got != alone {
				rt.Fatalf("window 1 and %d:\n%s", window, cmp.Diff(alone.String(), got.String()))
			}
		}
	})
}

// The same on a real server, which gets the requests of a window with others still
// under way.
func TestWindowsAgreeOnServer(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Heap(128), zktest.EnforceQuota())
	folders := 0
	rapid.Check(t, func(rt *rapid.T) {
		script := drawScript(rt)
		var alone played
		for _, window := range []int{1, 64} {
			folders++
			root := fmt.Sprintf("/w%d", folders)
			zksh(t, "-server", server.Addr(), "create", root)
			got := play(rt, server.Addr()+root, script, shell.Config{Window: window}).without(root)
			if window == 1 {
				alone = got
			} else if got != alone {
				rt.Fatalf("window 1 and %d:\n%s", window, cmp.Diff(alone.String(), got.String()))
			}
		}
	})
}

var (
	numbers = regexp.MustCompile(`0x[0-9a-f]+`)
	times   = regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) .* \d{4}`)
	guids   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// A lock that goes with its session is told of at some time.
	goings = regexp.MustCompile(`lock /\S+: released, with its session\n`)
	waits  = regexp.MustCompile(`waited"?[=:]"?[0-9.]+`)
)

// without leaves out what is another one in each run.
func (p played) without(place string) played {
	for _, s := range []*string{&p.out, &p.err} {
		*s = regexp.MustCompile(regexp.QuoteMeta(place)+`(\d{10})?`).ReplaceAllString(*s, "PLACE") // create -s / counts beside it
		*s = waits.ReplaceAllString(guids.ReplaceAllString(*s, "GUID"), "WAITED")
		*s = goings.ReplaceAllString(*s, "")
		if strings.HasPrefix(place, "/") {
			*s = times.ReplaceAllString(numbers.ReplaceAllString(*s, "NUMBER"), "TIME")
		}
	}
	return p
}

func (p played) String() string {
	return fmt.Sprintf("status %d\n--- output\n%s--- errors\n%s", p.status, p.out, p.err)
}

// drawScript makes a script of all commands: most lines are one request, some are
// not, and some are wrong. What it locks it leaves alone: the loss of a lock shows at
// some time.
func drawScript(t *rapid.T) string {
	line := rapid.Custom(drawLine)
	return strings.Join(rapid.SliceOfN(line, 1, 200).Draw(t, "lines"), "\n") + "\n"
}

var paths = []string{"/a", "/a", "/b", "/a/b", "/a/b", "/a/c", "/b/c", "/a/b/c", "/", "/none/x", "a", "/a/", "/s-0000000000"}

func drawLine(t *rapid.T) string {
	path := rapid.SampledFrom(paths).Draw(t, "path")
	data := rapid.SampledFrom([]string{"x", `"two words"`, `''`, "中文", "12345678901234567890"}).Draw(t, "data")
	form := rapid.SampledFrom([]string{
		"create PATH", "create PATH DATA", "create PATH DATA", "create PATH DATA", "create -s PATH DATA", "create -e PATH DATA", "create -s -e PATH- DATA",
		"set PATH DATA", "set PATH DATA", "set -s PATH DATA", "set -v 1 PATH DATA", "set PATH", "delete PATH", "delete PATH", "delete -v 1 PATH", "delete PATH 0",
		"get PATH", "get PATH", "get -s PATH", "get -w PATH", "get -b PATH", "get -j PATH", "get PATH watch", "ls PATH", "ls -s PATH", "ls -w PATH", "ls2 PATH",
		"stat PATH", "stat -w PATH", "exists PATH", "getAcl PATH", "getAcl -s PATH", "sync PATH", "config",
		"create -p PATH DATA", "create -c PATH", "create -t 5000 PATH DATA", "ls -R PATH", "deleteall PATH", "rmr PATH", "getAllChildrenNumber PATH",
		"setAcl PATH world:anyone:r", "setAcl PATH world:anyone:cdrwa", "setAcl -R PATH world:anyone:cdrwa", "create PATH DATA world:anyone:cdra",
		"addWatch PATH", "addWatch -m PERSISTENT PATH", "removewatches PATH", "removewatches PATH -d", "getEphemerals", "whoami",
		"setquota -n 2 PATH", "setquota -N 3 PATH", "setquota -B 30 PATH", "listquota PATH", "delquota PATH",
		"lock /l", "unlock /l", "rlock /l", "rlock /m", "unlock /m", "addauth digest u:p", "connect", "close",
		"version", "history", "redo 1", "redo 2", "redo 5", "printwatches on", "printwatches off", "help ls", "get --help",
		"", "# remark", "nonsense", "get", "ls -Q PATH", "create PATH DATA DATA DATA DATA", `get "PATH`, "set -v x PATH DATA",
	}).Draw(t, "form")
	return strings.NewReplacer("PATH", path, "DATA", data).Replace(form)
}
