package cluster

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A session is found on whichever server it is connected to, by its id or its client. Data
// that a server does not report is listed, and nothing is guessed.
func TestFindSession(t *testing.T) {
	replies := map[string]string{
		"a:1 cons": " /h:1[1](queued=0,recved=9,sid=0x1,lop=GETD,est=1795188561000,to=30000,minlat=0,avglat=1,maxlat=2)\n",
		"b:1 cons": " /h:2[1](queued=0,recved=9,sid=0x2,lop=PING)\n /h:3[1](queued=0,recved=9,sid=0x3,lop=PING)\n",
		"a:1 dump": "Session Sets (1):\n0 expire at Thu Jan 01 00:00:00 UTC 1970:\n\t0x4\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x1:\n\t/b\n\t/a\n",
		"a:1 wchc": "0x1\n\t/w\n",
		"b:1 wchc": "wchc " + notAllowed,
		"a:1 conf": "clientPort=1\nmaxSessionTimeout=60000\n",
	}
	f := &fake{hosts: []string{"a:1", "b:1"}, config: "server.1=a:2:3;1\nserver.2=b:2:3;1\n", word: func(_ context.Context, addr, word string) (string, error) {
		text, known := replies[addr+" "+word]
		if !known {
			return "", syscall.ECONNREFUSED
		}
		return text, nil
	}}
	find := func(id int64, client string) string {
		s, c, err := FindSession(t.Context(), f, id, client)
		if err != nil {
			return err.Error()
		}
		var rows []string
		for _, row := range s.Facts() {
			rows = append(rows, strings.Join(row, "="))
		}
		return strings.Join(append(rows, c.NotTold...), "; ")
	}
	const unwatched = "; data watches: the four-letter command wchc is not allowed; add it to 4lw.commands.whitelist on the servers"
	first := "session=0x1; state=connected; client=h:1; server=a:1; since=2026-11-20T15:29:21.000Z; timeout=30s; last operation=GETD; latency=0/1/2; " +
		"ephemerals=/a; =/b; data watches=/w" + unwatched
	for _, test := range []struct {
		id     int64
		client string
		want   string
	}{
		{1, "", first},
		{0, "h:1", first},
		{0, "h", "3 sessions are connected from h; to choose one, add its port to the address"},
		{0, "elsewhere", "there is no session from elsewhere"},
		{4, "", "session=0x4; state=no connection (gone in <= 1m0s)" + unwatched},
		{9, "", "there is no session 0x9"},
	} {
		if diff := cmp.Diff(test.want, find(test.id, test.client)); diff != "" {
			t.Errorf("%#x %q: %s", test.id, test.client, diff)
		}
	}
	replies["b:1 cons"] = "cons " + notAllowed
	for id, want := range map[int64]string{1: "connected", 4: "unknown", 9: "unknown"} {
		if got := find(id, ""); !strings.Contains(got, "state="+want+";") || !strings.Contains(got, "; address, server, latency: the four-letter command cons is not allowed") {
			t.Errorf("%#x: %s", id, got)
		}
	}
}
