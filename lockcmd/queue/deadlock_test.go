package queue

import (
	"context"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// newCaseEnsemble returns an ensemble of one server that answers all four-letter commands.
// Sessions 1 to 3 are connected.
func newCaseEnsemble() *fakeEnsemble {
	f := newFakeEnsemble()
	f.answersDump = true
	f.cons = func(context.Context, string) (string, error) {
		return " /h:1[1](queued=0,sid=0x1)\n /h:2[1](queued=0,sid=0x2)\n /h:3[1](queued=0,sid=0x3)\n", nil
	}
	f.make(0, "", "/l")
	return f
}

// locks -R names each possible deadlock with the command that resolves it, and nothing else.
func TestLookAllNamesDeadlocks(t *testing.T) {
	for name, c := range map[string]struct {
		make func(f *fakeEnsemble)
		want string // expected remark; empty if there is none
	}{
		"a queue": {func(f *fakeEnsemble) {
			f.make(1, "", "/l/"+lock1)
			f.make(2, "", "/l/"+lock2)
		}, ""},
		"readers": {func(f *fakeEnsemble) {
			f.make(1, "", "/l/"+read2)
			f.make(1, "", "/l/"+read3)
		}, ""},
		"the same order": {func(f *fakeEnsemble) {
			makeRing(f, 3)
			delete(f.znodes, "/q2/"+lock2)
		}, ""},
		"crossed": {func(f *fakeEnsemble) { makeRing(f, 3) },
			lock2 + " holds /q1 and waits for /q0; " + lock1 + " is ahead in /q0 and waits for /q2; " + lock1 +
				" is ahead in /q2 and waits for /q1; to resolve it, run: unlock --force " + lock1 + " /q0"},
		"twice": {func(f *fakeEnsemble) {
			f.make(1, "", "/l/"+lock1)
			f.make(1, "", "/l/"+lock2)
		}, "session 0x1 is in the queue of /l twice, so " + lock2 + " waits for " + lock1 +
			", unless these are two threads; to resolve it, run: unlock --force " + lock1 + " /l"},
		"an upgrade": {func(f *fakeEnsemble) {
			f.make(1, "", "/l/"+read2)
			f.make(1, "", "/l/"+write4)
		}, "session 0x1 is in the queue of /l twice, so " + write4 + " waits for " + read2 +
			", unless these are two threads; to resolve it, run: unlock --force " + read2 + " /l"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCaseEnsemble()
			c.make(f)
			s, err := LookAll(t.Context(), f, "/")
			zktest.Must(t, err)
			want := ""
			if c.want != "" {
				want = "possible deadlock: " + c.want
			}
			var got []string
			for _, d := range s.Deadlocks {
				got = append(got, d.String())
			}
			if text := strings.Join(got, "\n"); text != want {
				t.Errorf("%q, want %q", text, want)
			}
			if f.listCalls != 1 {
				t.Errorf("the lists were read %d times, so they are not of one moment", f.listCalls)
			}
		})
	}
}

// The suggested command can be typed as it is printed, whatever the path.
func TestRemovalIsQuoted(t *testing.T) {
	q := &Queue{Path: "/a \"it's\""}
	c := &Contender{Kind: stranger, node: &node{path: q.Path + "/new\nline"}}
	if got, want := q.removal(c), `delete $'/a "it\'s"/new\nline'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
