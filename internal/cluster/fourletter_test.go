package cluster

import "testing"

// FuzzAnswers checks that no reply of a server makes a parser panic.
func FuzzAnswers(f *testing.F) {
	f.Add(" /127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x1000,lop=PING,est=1795188561000)\n")
	f.Add("](sid=0x1,est=\n[](sid=0xffffffffffffffff\n")
	f.Add("Sessions with Ephemerals (1):\n0x1000:\n\t/a/b\n\nConnections dump:\n")
	f.Add("server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=[::1]:2888:3888:observer;[::]:2181\nserver.=\n")
	f.Fuzz(func(t *testing.T, text string) {
		parseCons(text)
		parseMembers(text, "2181")
		pathsBySession(text)
		if all, err := ephemerals(text); err != nil && all != nil {
			t.Errorf("%v with %v", all, err)
		}
	})
}

// ephemerals rejects a malformed reply to dump.
func TestDump(t *testing.T) {
	good := "SessionTracker dump:\nephemeral nodes dump:\nSessions with Ephemerals (2):\n0x1:\n\t/a\n\t/b c\n0xffff000000000001:\n\t/d\nConnections dump:\n0x7:\n"
	all, err := ephemerals(good)
	if err != nil || len(all) != 2 || len(all[1]) != 2 || all[1][1] != "/b c" || len(all[-0xffffffffffff]) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	for _, bad := range []string{"", "hello", "Sessions with Ephemerals (x):\n", "Sessions with Ephemerals (1"} {
		if all, err := ephemerals(bad); err == nil {
			t.Errorf("%q: %v", bad, all)
		}
	}
}
