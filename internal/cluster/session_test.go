package cluster

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A session is found on whichever server it is connected to. Data that a server does not report is
// listed, and nothing is guessed.
func TestFindSession(t *testing.T) {
	soon := time.Now().Add(2 * time.Minute).UTC().Format(javaDate)
	replies := map[string]string{
		"a:1 cons": " /h:1[1](queued=0,recved=9,sid=0x1,lop=GETD,est=1795188561000,to=30000,minlat=0,avglat=1,maxlat=2)\n",
		"b:1 cons": " /h:2[1](queued=0,recved=9,sid=0x2,lop=PING)\n /h:3[1](queued=0,recved=9,sid=0x3,lop=PING)\n",
		"a:1 dump": "Session Sets (1):\n0 expire at " + soon + ":\n\t0x4\nephemeral nodes dump:\n" +
			"Sessions with Ephemerals (1):\n0x1:\n\t/b\n\t/a\n",
	}
	config := "server.1=a:2:3;1\nserver.2=b:2:3;1\n"
	f := &fake{hosts: []string{"a:1", "b:1"}, config: config, word: func(_ context.Context, addr, word string) (string, error) {
		text, known := replies[addr+" "+word]
		if !known {
			return "", syscall.ECONNREFUSED
		}
		return text, nil
	}}
	find := func(id int64) string {
		s, err := FindSession(t.Context(), f, id)
		if err != nil {
			return err.Error()
		}
		var rows []string
		for _, row := range s.Table().Rows {
			rows = append(rows, strings.Join(row, "="))
		}
		return strings.Join(append(rows, s.NotTold...), "; ")
	}
	for id, want := range map[int64]string{
		1: "session=0x1; state=connected; client=h:1; server=a:1; since=2026-11-20T15:29:21.000Z; timeout=30s; ephemerals=/a; =/b",
		2: "session=0x2; state=connected; client=h:2; server=b:1",
		4: "session=0x4; state=no connection (gone in <= 2m0s)",
		9: "there is no session 0x9",
	} {
		if diff := cmp.Diff(want, strings.Replace(find(id), "1m59s", "2m0s", 1)); diff != "" {
			t.Errorf("%#x: %s", id, diff)
		}
	}
	replies["b:1 cons"] = "cons " + notAllowed
	for id, want := range map[int64]string{1: "connected", 4: "unknown", 9: "unknown"} {
		if got := find(id); !strings.Contains(got, "state="+want+";") ||
			!strings.Contains(got, "; address, server: the four-letter command cons is not allowed") {
			t.Errorf("%#x: %s", id, got)
		}
	}
	delete(replies, "a:1 dump")
	if got := find(1); !strings.HasSuffix(got, "; ephemerals: no server listed them") {
		t.Error(got)
	}
}
