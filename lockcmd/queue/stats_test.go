package queue

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The statistics contain only what the follower saw from its beginning: no hold time for a
// client that already held the lock, and no hand-over for one that found the lock free.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEnsemble()
		f.make(0, "", "/l")
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+lock2)
		f.mntrCounters = map[string]int64{deletionCounter: 100, childrenCounter: 50}
		follower := Follow(f, "/l")
		follower.Count(t.Context())
		update := func() {
			t.Helper()
			if _, err := follower.Update(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		update()
		time.Sleep(time.Second)
		f.make(3, "", "/l/"+lock3)
		update()
		time.Sleep(time.Second)
		delete(f.znodes, "/l/"+lock1)
		update()
		time.Sleep(2 * time.Second)
		delete(f.znodes, "/l/"+lock2)
		update()
		time.Sleep(time.Second)
		delete(f.znodes, "/l/"+lock3)
		update()
		f.make(4, "", "/l/"+lock1)
		update()
		f.mntrCounters[deletionCounter] += 6
		f.mntrCounters[childrenCounter]++
		want := &Stats{Path: "/l", Seconds: 5, HandOvers: 2, Releases: 3, Hold: Spread{2, 1000, 2000}, Wait: Spread{2, 0, 3000},
			Notified: &Notified{Deleted: 6, Children: 1, PerRelease: 2}}
		got := follower.Stats(t.Context())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		var text strings.Builder
		if err := got.Text(&text); err != nil {
			t.Fatal(err)
		}
		lines := "hand-overs: 2, releases: 3, in 5s\nheld: p50 1s, p99 2s\nwaited: p50 0s, p99 3s\n" +
			"watchers notified: 6 of deletions (2.0 per release), 1 of changed children\n"
		if text.String() != lines || len(got.Table().Rows) != 4 {
			t.Errorf("%s", text.String())
		}
		if p := strings.Join(texts(follower.Picture(80, 24, true, got)), "\n"); !strings.Contains(p, "hand-overs: 2") {
			t.Error(p)
		}
		f.mntrCounters = nil
		if got := follower.Stats(t.Context()); got.Notified != nil || got.NotTold != "the four-letter command mntr is not allowed; add it to 4lw.commands.whitelist on the servers" {
			t.Errorf("%+v", got)
		}
	})
}

func TestSpread(t *testing.T) {
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(200-i)*time.Millisecond)
	}
	if got := newSpread(times); got != (Spread{200, 100, 198}) {
		t.Errorf("%+v", got)
	}
	if got := newSpread(times[:1]); got != (Spread{1, 200, 200}) || got.String() != "p50 200ms, p99 200ms" {
		t.Errorf("%+v", got)
	}
	if got := newSpread(nil).String(); got != "none seen" {
		t.Error(got)
	}
}
