package undo

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
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

// A digest entry without a password hash causes a remark, but no question, in scripts too.
func TestDigestWithoutAHash(t *testing.T) {
	h := newSandboxShell(t)
	h.env.Mode, h.env.Saver = commands.Batch, nil
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
