package sandbox

import (
	"io"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// ask sends a four-letter command to the server and returns its output.
func ask(t *testing.T, s *Server, word string) string {
	t.Helper()
	nc, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(nc, word) }()
	b, err := io.ReadAll(nc)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestFourLetterCommands(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	c := open(t, s)
	c.create("/e", modeEphemeral)
	c.must(jute.OpAddWatch, rawzk.PathInt("/e", 0))
	ask := func(word string) string { return ask(t, s, word) }
	for word, want := range map[string][]string{
		"ruok": {"imok"}, "isro": {"rw"},
		"srvr": {"Zookeeper version: 3.8.0", "\nZxid: 0x", "\nMode: standalone\n", "\nNode count: 6\n"},
		"stat": {"Clients:\n /in-process[", "Mode: standalone"},
		"cons": {",sid=0x1", ",lop=ADDW,", ",to=10000,"},
		"dump": {"Session Sets (1)/(1):", "\n\t/e\n", "Connections dump:"},
		"wchp": {"/e\n\t0x1"},
		"mntr": {"zk_server_state\tstandalone\n", "zk_znode_count\t6\n", "zk_ephemerals_count\t1\n"},
		"envi": {"zookeeper.version=3.8.0"},
	} {
		got := ask(word)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", word, w, got)
			}
		}
	}
	if got := ask("abcd"); got != "" {
		t.Errorf("abcd: %q", got)
	}
}
