package undo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// zksh does not ask about unsaved data if the server would reject the command anyway.
func TestNotAskedInVain(t *testing.T) {
	for _, addr := range []string{zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Shared(t).Addr()} {
		h := newTestShell(t, addr, t.TempDir())
		root := "/vain"
		h.do("create "+root, "create "+root+"/shut x ip:10.9.8.7:cdrwa", "create "+root+"/full x world:anyone:cdwa", "create "+root+"/full/x",
			"create "+root+"/half x world:anyone:cdwa")
		h.fails("set "+root+"/shut new", "Insufficient permission : "+root+"/shut")
		h.fails("delete "+root+"/full", "Node not empty: "+root+"/full")
		h.fails("set -v 7 "+root+"/half new", "version No is not valid : "+root+"/half")
		if len(h.asked) != 0 {
			t.Errorf("asked %q", h.asked)
		}
		h.fails("set "+root+"/half new", "not run")
		if len(h.asked) != 1 || !strings.Contains(h.asked[0], "no permission to read "+root+"/half, so undo will not be able to restore it") {
			t.Errorf("asked %q", h.asked)
		}
		h.yes = true
		h.do("set "+root+"/half new", "delete "+root+"/half")
		h.fails("delete "+root+"/half", "Node does not exist")
	}
}

// At the prompt, setAcl asks before it writes an ACL that the user could not change again, unless
// the server would reject it.
func TestLockOut(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a", "create /b x world:anyone:cdrw", "create /t", "create /t/x")
	const asked = "with this ACL, you will not be able to change the ACL of /a again, and undo cannot restore it. Continue? [y/N] "
	for _, acl := range []string{"digest:bob:xyz:cdrwa", "world:anyone:cdrw", "digest:bob:KFv3Tr8HFtmwTzwFuZLHJkJtCnY=:cdrwa,world:anyone:r"} {
		h.asked = nil
		h.fails("setAcl /a "+acl, "not run")
		if len(h.asked) != 1 || h.asked[0] != asked {
			t.Errorf("%s: asked %q", acl, h.asked)
		}
	}
	h.asked = nil
	h.fails("setAcl -R /t world:anyone:r", "not run")
	if len(h.asked) != 1 {
		t.Errorf("asked %q", h.asked)
	}
	h.asked = nil
	h.fails("setAcl /none world:anyone:r", "Node does not exist: /none")
	h.fails("setAcl -v 9 /a world:anyone:r", "version No is not valid : /a")
	h.fails("setAcl /b world:anyone:r", "Insufficient permission : /b")
	h.do("setAcl /a ip:127.0.0.1:cdrwa", "setAcl /a world:anyone:a", "setAcl /a world:anyone:cdrwa") // only the server knows whether these lock the user out
	h.do("addauth digest bob:secret", "setAcl /a auth::cdrwa", "setAcl /a digest:bob:fyVmFCwVbTJYrznoSu1koqYEYF0=:cdrwa,world:anyone:r")
	if len(h.asked) != 0 {
		t.Errorf("asked %q", h.asked)
	}
}

// The question knows the identities that the server reports: addresses match networks, and an entry
// for somebody else does not count. -a and -x are asked about as well, and -y asks nothing. Servers
// before 3.7 report no identities, so zksh does not ask if an entry for an address might match.
func TestLockOutByIdentity(t *testing.T) {
	addrs := []string{zktest.Shared(t).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{As: "3.6"}).Addr()}
	for _, addr := range addrs {
		reports := newTestShell(t, addr, t.TempDir()).try("whoami") == nil
		h := newTestShell(t, addr, t.TempDir())
		root := "/identity"
		h.do("create " + root)
		n := 0
		for line, asks := range map[string]bool{
			"setAcl %s ip:127.0.0.0/8:cdrwa":                          false,
			"setAcl %s ip:10.0.0.0/8:cdrwa":                           reports,
			"setAcl -a world:anyone:cdrw %s":                          true,
			"setAcl -x world:anyone -a digest:bob:secret:cdrwa %s":    true,
			"setAcl -y -x world:anyone -a digest:bob:secret:cdrwa %s": false,
			"setAcl -R %s ip:10.0.0.1:a,digest:bob:secret:r":          reports,
			"setAcl -x world:anyone -a ip:127.0.0.1:a %s":             false,
		} {
			n++
			path := fmt.Sprintf("%s/%d", root, n)
			h.do("create " + path)
			line = fmt.Sprintf(line, path)
			h.asked = nil
			err := h.try(line)
			if asks != (len(h.asked) == 1) || asks != (err != nil) {
				t.Errorf("%s: asked %q, %v", line, h.asked, err)
			}
		}
	}
}

// A digest user named super is ZooKeeper's super user only if the server says so. A server before 3.7
// cannot say it, so zksh goes by the name. The remark about a missing hash precedes the question.
func TestLockOutOfSuper(t *testing.T) {
	const super = "super:O32iwIbnp3zoU/NLNfoDg+8xe50="
	for _, c := range []struct {
		addr string
		asks bool
	}{
		{zktest.Shared(t).Addr(), true},
		{zktest.Sandbox(t, sandbox.Options{}).Addr(), true},
		{zktest.Sandbox(t, sandbox.Options{SuperDigest: "super:hash-of-another-password"}).Addr(), true},
		{zktest.Sandbox(t, sandbox.Options{SuperDigest: super}).Addr(), false},
		{zktest.Sandbox(t, sandbox.Options{As: "3.6"}).Addr(), false},
	} {
		h := newTestShell(t, c.addr, t.TempDir())
		h.do("create /super", "addauth digest super:helium")
		var notes []string
		h.screen.Answer = func(question string) (bool, error) {
			h.asked, notes = append(h.asked, question), append(notes, h.screen.Notes())
			return false, nil
		}
		for i, line := range []string{"setAcl %s world:anyone:r", "setAcl -R %s world:anyone:r", "setAcl %s digest:super:password:cdrwa"} {
			path := fmt.Sprintf("/super/%d", i)
			h.do("create " + path)
			line = fmt.Sprintf(line, path)
			h.asked = nil
			err := h.try(line)
			if c.asks != (len(h.asked) == 1) || c.asks != (err != nil) {
				t.Errorf("%s: asked %q, %v", line, h.asked, err)
			}
		}
		if c.asks && (len(notes) != 3 || !strings.Contains(notes[2], "digest:super:… contains no password hash")) {
			t.Errorf("before the questions: %q", notes)
		}
		h.do("setAcl /super auth::cdrwa") // its own hash
	}
}

// setAcl -a and -x write only if the ACL is still the one that they read, and undo restores it.
func TestEntriesAreNotOverwritten(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a")
	before := h.tree("/a")
	h.do("setAcl -a ip:10.0.0.1:r /a", "undo")
	h.wantTree("/a", before)
	h.do("setAcl -a ip:10.0.0.1:r /a")
	h.do("setAcl -x ip:10.0.0.1 /a", "undo")
	other := zksession.Open(t, zkconn.Config{Servers: h.env.Session.Servers().Spec, Timeout: 20 * time.Second})
	h.screen.Answer = func(string) (bool, error) {
		return true, zkconn.Exec(t.Context(), other, zkconn.SetACL("/a", []zk.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}, -1))
	}
	h.fails("setAcl -x world:anyone /a", "version No is not valid : /a")
	h.wantTree("/a", before)
}

// A digest entry without a password hash causes a remark, but no question, in scripts too.
func TestDigestWithoutAHash(t *testing.T) {
	h := newSandboxShell(t)
	h.env.Mode, h.env.Recorder = commands.Batch, nil
	h.do("create /a x digest:bob:secret:r,world:anyone:cdrwa", "setAcl /a digest:bob:KFv3Tr8HFtmwTzwFuZLHJkJtCnY=:r,world:anyone:cdrwa")
	note := "digest:bob:… contains no password hash, so nobody gets its permissions; to grant them to your own user, run addauth and use auth::"
	if want := note + "r"; h.screen.Notes() != want {
		t.Errorf("%q, want %q", h.screen.Notes(), want)
	}
	h.do("setAcl -R /a digest:bob:secret:cdrwa")
	if want := note + "cdrwa"; !strings.HasSuffix(h.screen.Notes(), want) || len(h.asked) != 0 {
		t.Errorf("%q, asked %q", h.screen.Notes(), h.asked)
	}
}
