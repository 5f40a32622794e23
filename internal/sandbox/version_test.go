package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// eachVersion runs f in a bubble for each version of ZooKeeper.
func eachVersion(t *testing.T, f func(t *testing.T, s *Server, as Version)) {
	for _, as := range Versions() {
		t.Run(string(as), func(t *testing.T) {
			bubble(t, Options{As: as}, func(t *testing.T, s *Server) { f(t, s, as) })
		})
	}
}

// An opcode that a version does not know fails with Unimplemented and closes the connection.
func TestUnknownOpcodesHangUp(t *testing.T) {
	bodies := map[int32][]byte{
		jute.OpCreate2: rawzk.Create("/2", nil, rawzk.Open, 0), jute.OpCreateContainer: rawzk.Create("/c", nil, rawzk.Open, modeContainer),
		jute.OpCreateTTL: rawzk.CreateTTL("/t", nil, rawzk.Open, modeTTL, 1000), jute.OpDeleteContainer: rawzk.Path("/a"),
		jute.OpReconfig:     body(rawzk.Path(""), rawzk.Path(""), rawzk.Path(""), make([]byte, 8)),
		jute.OpCheckWatches: rawzk.PathInt("/", 3), jute.OpRemoveWatches: rawzk.PathInt("/", 3),
		jute.OpMultiRead: rawzk.Multi(), jute.OpGetEphemerals: rawzk.Path("/"), jute.OpGetAllChildrenNumber: rawzk.Path("/"),
		jute.OpSetWatches2: rawzk.SetWatches(0, nil, nil, nil, nil, nil), jute.OpAddWatch: rawzk.PathInt("/", 0), jute.OpWhoAmI: nil,
	}
	if len(bodies) != len(opSince) {
		t.Fatalf("%d opcodes are tried, of %d", len(bodies), len(opSince))
	}
	eachVersion(t, func(t *testing.T, s *Server, as Version) {
		for op, request := range bodies {
			c := open(t, s)
			got := code(c.call(op, request).Err)
			if known := as.index() >= opSince[op].index(); (got != codeUnimplemented) != known {
				t.Errorf("opcode %d: error %d", op, got)
			} else if !known {
				c.waitClosed()
			} else {
				c.exists("/") // the connection still works
			}
		}
	})
}

func TestVersionText(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *Server, as Version) {
		if text := fourLetterCommands["srvr"](s); !strings.HasPrefix(text, "Zookeeper version: "+string(as)+".") {
			t.Error(text)
		}
	})
	if _, err := ParseVersion("3.7"); err == nil || !strings.Contains(err.Error(), `"3.7" to imitate: must be one of 3.4, 3.5, 3.6, 3.8, 3.9`) {
		t.Error(err)
	}
	if v, err := ParseVersion("3.9"); v != "3.9" || err != nil {
		t.Error(v, err)
	}
}

// eventsAndError sends a request and returns the events before its reply and the reply's
// error, as text.
func eventsAndError(c *client, op int32, body []byte) (text string) {
	c.t.Helper()
	frames, err := c.Call(op, body)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range frames[:len(frames)-1] {
		d := jute.NewDecoder(f.Body)
		typ := d.Int()
		d.Int()
		text += fmt.Sprintf("%d %s ", typ, d.String())
	}
	return text + fmt.Sprint(frames[len(frames)-1].Err)
}

func TestReadPermissionByVersion(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *Server, as Version) {
		owner, other := open(t, s), open(t, s)
		owner.must(jute.OpAuth, rawzk.Auth("digest", "u:p"))
		owner.must(jute.OpCreate, rawzk.Create("/priv", nil, []rawzk.ACL{{Perms: permAll, Scheme: "auth"}}, 0))
		want := codeOK
		if as == "3.9" {
			want = codeNoAuth
		}
		if got := code(other.call(jute.OpExists, rawzk.PathWatch("/priv", true)).Err); got != want {
			t.Errorf("exists: error %d", got)
		}
		if got := code(other.call(jute.OpExists, rawzk.PathWatch("/none", false)).Err); got != codeNoNode {
			t.Errorf("exists of nothing: error %d", got)
		}
		owner.must(jute.OpSetData, rawzk.Set("/priv", nil, -1))
		events, err := other.Flush()
		if sees := as == "3.4" || as == "3.5" || as == "3.6"; err != nil || len(events) > 0 != sees {
			t.Errorf("%d events, %v", len(events), err)
		}
		if got, want := code(owner.call(jute.OpExists, rawzk.PathWatch(configPath, false)).Err) == codeOK, as != "3.4"; got != want {
			t.Errorf("the configuration is there: %v", got)
		}
	})
}

func TestWatchesByVersion(t *testing.T) {
	for as, want := range map[Version]string{
		// events of setData and of a created child with watches of both modes; removeWatches
		// of types 4 and 5; removeWatches of type 1 with a persistent watch; setData again
		"3.8": "3 /w 0, 1 /w/a 0, -5, -5, 0, 3 /w 0",
		"3.9": "3 /w 0, 1 /w/a 4 /w 0, 0, 0, -121, 3 /w 0",
	} {
		bubble(t, Options{As: as}, func(t *testing.T, s *Server) {
			c := open(t, s)
			c.create("/w", 0)
			c.must(jute.OpAddWatch, rawzk.PathInt("/w", 0))
			c.must(jute.OpAddWatch, rawzk.PathInt("/w", 1))
			set := func() string { return eventsAndError(c, jute.OpSetData, rawzk.Set("/w", nil, -1)) }
			got := []string{set(), eventsAndError(c, jute.OpCreate, rawzk.Create("/w/a", nil, rawzk.Open, 0)),
				eventsAndError(c, jute.OpRemoveWatches, rawzk.PathInt("/w", 4)), eventsAndError(c, jute.OpRemoveWatches, rawzk.PathInt("/w", 5))}
			c.must(jute.OpAddWatch, rawzk.PathInt("/w", 0))
			got = append(got, eventsAndError(c, jute.OpRemoveWatches, rawzk.PathInt("/w", 1)), set())
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("%s: %s, want %s", as, text, want)
			}
		})
	}
}

// From 3.9 on, an event carries the zxid of the transaction that caused it.
func TestEventZxids(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *Server, as Version) {
		c := open(t, s)
		c.create("/w", 0)
		c.must(jute.OpGetData, rawzk.PathWatch("/w", true))
		frames, err := c.Call(jute.OpSetData, rawzk.Set("/w", nil, -1))
		if err != nil || len(frames) != 2 {
			t.Fatal(frames, err)
		}
		want := int64(noZxid)
		if as == "3.9" {
			want = frames[1].Zxid
		}
		if got := frames[0].Zxid; got != want {
			t.Errorf("zxid %d, want %d", got, want)
		}
	})
}

func TestCheckOutsideMultiSince39(t *testing.T) {
	bubble(t, Options{As: "3.9"}, func(t *testing.T, s *Server) {
		c := open(t, s)
		multi := rawzk.Multi(rawzk.Op{Op: jute.OpCheck, Body: rawzk.PathInt("/", -1)})
		c.must(jute.OpMulti, multi)
		if got := code(c.call(jute.OpCheck, rawzk.PathInt("/", -1)).Err); got != codeUnimplemented {
			t.Errorf("error %d", got)
		}
		c.waitClosed()
	})
}

func TestCreateModesBefore35(t *testing.T) {
	bubble(t, Options{As: "3.4"}, func(t *testing.T, s *Server) {
		c := open(t, s)
		if got := code(c.call(jute.OpCreate, rawzk.Create("/c", nil, rawzk.Open, modeContainer)).Err); got != codeBadArguments {
			t.Errorf("error %d", got)
		}
		multi := rawzk.Multi(rawzk.Op{Op: jute.OpCreate2, Body: rawzk.Create("/c", nil, rawzk.Open, 0)})
		if got := code(c.call(jute.OpMulti, multi).Err); got != codeMarshalling {
			t.Errorf("in a multi: error %d", got)
		}
	})
}

// With EnforceAuth, the server closes the connection of a client that sends any request,
// even a ping, before it has authenticated.
func TestEnforcedAuthentication(t *testing.T) {
	bubble(t, Options{EnforceAuth: true}, func(t *testing.T, s *Server) {
		for _, op := range []int32{jute.OpExists, jute.OpPing, jute.OpCloseSession} {
			c := open(t, s)
			if got := code(c.call(op, rawzk.PathWatch("/", false)).Err); got != codeSessionNoAuth {
				t.Errorf("opcode %d: error %d", op, got)
			}
			c.waitClosed()
		}
		c := open(t, s)
		c.must(jute.OpAuth, rawzk.Auth("digest", "u:p"))
		c.create("/x", 0)
	})
}

func TestThrottledRequestIsNotExecuted(t *testing.T) {
	left := 2
	throttle := func(int32) bool { left--; return left >= 0 }
	bubble(t, Options{Throttle: throttle}, func(t *testing.T, s *Server) {
		c := open(t, s)
		c.must(jute.OpAuth, rawzk.Auth("digest", "u:p"))
		for range 2 {
			if got := code(c.call(jute.OpCreate, rawzk.Create("/x", nil, rawzk.Open, 0)).Err); got != codeThrottled {
				t.Fatalf("error %d", got)
			}
		}
		c.create("/x", 0)
	})
}
