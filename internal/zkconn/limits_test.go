package zkconn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
	"github.com/zksh/zksh/internal/zktest"
)

// answer sends a successful reply with a body.
func (p *remote) answer(xid int32, body []byte) bool {
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(0)
	return p.frame(append(e.B, body...))
}

// A child name that is invalid makes the reply malformed, because such a path would lead to
// another znode.
func TestInvalidChildNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/", "/a"} {
		serve := func(_ int, p *remote) {
			p.host(func(xid, op int32) bool {
				var e jute.Encoder
				if op == jute.OpMultiRead {
					e.MultiHeader(jute.OpGetChildren, false, 0)
				}
				e.Strings([]string{"good", name})
				return p.answer(xid, append(e.B, make([]byte, 100)...))
			})
		}
		bubble(t, serve, func(t *testing.T, s *Session) {
			p, err := s.Pipe(testContext(t), "/")
			zktest.Must(t, err)
			_, err = Add(p, GetChildren("/a")).Wait(testContext(t))
			listed := Exec(testContext(t), s, List("/a"))
			_, together := Add(p, MultiGetChildren([]string{"/a"})).Wait(testContext(t))
			each := AddEach(p, []string{"/a"}, List).Each(testContext(t), func(Listed, error) { t.Error("it was taken") })
			for _, err := range []error{err, listed, together, each} {
				if want := fmt.Sprintf("malformed reply: %q is not", name); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q: %v", name, err)
				}
			}
		})
	}
}

// The memory of a decoded list is bounded, however short its elements are in the reply.
func TestTooLongLists(t *testing.T) {
	const n = maxLists/jute.StringCost + 1
	list := func(size int) []byte {
		var e jute.Encoder
		e.Int(n)
		return append(e.B, make([]byte, n*size)...)
	}
	r := wire.Reply{Body: list(12)}
	for name, got := range map[string]error{
		"children":   errorOf(read(answerTo(r, ""), GetChildren("/").decode)),
		"ACL":        errorOf(read(answerTo(r, ""), GetACL("/").decode)),
		"multiRead":  errorOf(read(answerTo(wire.Reply{Body: append(make([]byte, 9), r.Body...)}, ""), MultiGetChildren([]string{"/"}).decode)),
		"ephemerals": errorOf(read(answerTo(r, ""), (*answer).Strings)),
	} {
		if !errors.Is(got, jute.ErrTooMany) {
			t.Errorf("%s: %v", name, got)
		}
	}
	few := jute.Encoder{}
	few.Strings(make([]string, n/4))
	a := answerTo(wire.Reply{Body: few.B}, "")
	for i := range 5 { // the limit holds for several replies together
		a.Next(few.B)
		if a.Strings(); errors.Is(a.Err(), jute.ErrTooMany) != (i == 4) {
			t.Errorf("list %d: %v", i, a.Err())
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// Replies that exceed the memory limit together are requested again later, and none is lost.
func TestRepliesOverMemoryLimit(t *testing.T) {
	const size, n = 7 << 20, 12
	asked := 0
	var e jute.Encoder
	e.Strings([]string{strings.Repeat("n", size)})
	serve := func(_ int, p *remote) {
		p.host(func(xid, op int32) bool { asked++; return p.answer(xid, e.B) })
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		p, err := s.Pipe(testContext(t), "/")
		zktest.Must(t, err)
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf("/%d", i)
		}
		several := AddEach(p, paths, GetChildren)
		took := 0
		err = several.Each(testContext(t), func(names []string, refusal error) {
			if refusal != nil || len(names) != 1 || len(names[0]) != size {
				t.Errorf("%d names, %v", len(names), refusal)
			}
			took++
		})
		if err != nil || took != n || !several.Slowed() || asked <= n {
			t.Errorf("%d of %d replies, after %d requests: %v", took, n, asked, err)
		}
		if held := s.current().cfg.waiting.Bytes(); held > wire.MaxMemory+wire.MaxReply {
			t.Errorf("%d MiB are held", held>>20)
		}
	})
}

// Replies to writes, and events, have smaller size limits than other replies.
func TestLongAnswersToWrites(t *testing.T) {
	serve := func(_ int, p *remote) {
		p.host(func(xid, op int32) bool { return p.answer(xid, make([]byte, 100<<10)) })
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		err := Exec(testContext(t), s, Delete("/a", -1))
		if err == nil || !strings.Contains(err.Error(), "which exceeds the limit") || !strings.Contains(err.Error(), "unknown whether it took effect") {
			t.Errorf("got %v", err)
		}
	})
	serve = func(_ int, p *remote) {
		p.host(func(xid, op int32) bool { return p.event("/" + strings.Repeat("e", jute.MaxPath+1<<13)) })
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		err := Exec(testContext(t), s, Exists("/a"))
		if err == nil || !strings.Contains(err.Error(), "which exceeds the limit") {
			t.Errorf("got %v", err)
		}
	})
}
