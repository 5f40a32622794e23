package shell

import (
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/line"
)

var styleNames = map[line.Style]string{line.KnownCommand: "known", line.UnknownCommand: "unknown", line.Flag: "flag",
	line.Quoted: "quoted", line.OpenQuote: "open", line.KnownPath: "path"}

// Painting a line uses what completion has cached, and sends no request.
func TestPaint(t *testing.T) {
	n := newNodes(map[string][]string{"/": {"app"}, "/app": {"one", "two words"}})
	c := newCompletion(t, n)
	eventually(t, c, "get /ap", "get /app")
	eventually(t, c, "get /app/", `get /app/one|get "/app/two words"`)
	sent := n.requests.Load()
	for text, want := range map[string]string{
		"":                                   "",
		"ge":                                 "",
		"get":                                "get=known",
		"gte":                                "",
		"gte ":                               "gte=unknown",
		"get /app/one":                       "get=known /app/one=path",
		"get /app/on":                        "get=known",
		"get /elsewhere/x":                   "get=known",
		"get -s -w /app/one":                 "get=known -s=flag -w=flag /app/one=path",
		"get -q -5 --stat":                   "get=known --stat=flag",
		"create /app/one /app/one":           "create=known /app/one=path", // the second one is data
		`set /app/one 'a b' "c`:              `set=known /app/one=path 'a b'=quoted "c=open`,
		"set -s -- -s":                       "set=known -s=flag",
		"get /app/one | grep -s '/app'":      "get=known /app/one=path",
		"  get\t/app/one /":                  "get=known /app/one=path",
		"set /a " + strings.Repeat("x", 9e3): "",
	} {
		var got []string
		for _, s := range c.paint(text) {
			got = append(got, text[s.From:s.To]+"="+styleNames[s.Style])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is %q, want %q", text, strings.Join(got, " "), want)
		}
	}
	if now := n.requests.Load(); now != sent {
		t.Errorf("%d requests were sent", now-sent)
	}
}

// connectedTo returns a shell whose session has the given connect string.
func connectedTo(t *testing.T, servers string) *Shell {
	t.Helper()
	session, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { zktest.Check(t, session.Close(zktest.Within(t))) })
	return New(Config{Session: session, Commands: [][]*commands.Command{commands.All()}})
}

func TestSuggest(t *testing.T) {
	s := connectedTo(t, "127.0.0.1:1/app")
	const here = "127.0.0.1:1/app"
	if s.place() != here {
		t.Fatalf("the place is %q", s.place())
	}
	s.recall.Add(
		history.Entry{Line: "deleteall /here", Place: here},
		history.Entry{Line: "set /a here", Place: here},
		history.Entry{Line: "gte /a", Place: here, Status: commands.StatusUnknown},
		history.Entry{Line: "deleteall /prod", Place: "@prod"},
		history.Entry{Line: "set /b there", Place: "@prod"},
		history.Entry{Line: "get /there", Place: "@prod"},
		history.Entry{Line: "find /c -- set {}", Place: "@prod"},
		history.Entry{Line: "ls /old"},
		history.Entry{Line: "delete /old"},
	)
	for text, want := range map[string]string{"del": "eteall /here", "set": " /a here", "set /b": "", "get": " /there", "gt": "", "f": "", "x": "", "delete /": ""} {
		if got := s.suggest(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	var up []string
	for i := s.recall.Len(); ; {
		line, at, ok := s.recall.Older(i, "", s.recallable)
		if !ok {
			break
		}
		up, i = append(up, line), at
	}
	if got := strings.Join(up, ", "); got != "ls /old, gte /a, set /a here, deleteall /here" {
		t.Errorf("Up recalls %s", got)
	}
}

// BenchmarkSuggest measures the suggestion with 100,000 lines of another cluster, all of which
// match.
func BenchmarkSuggest(b *testing.B) {
	session, err := zkconn.Open(zkconn.Config{Servers: "127.0.0.1:1", Timeout: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{Session: session, Commands: [][]*commands.Command{commands.All()}})
	for i := range 100_000 {
		s.recall.Add(history.Entry{Line: "deleteall /app/" + strings.Repeat("x", i%50) + string(rune('a'+i%26)), Place: "@prod"})
	}
	for b.Loop() {
		s.suggest("deleteall")
	}
}
