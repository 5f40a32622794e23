package queue

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

// member reads /l of the ensemble as one member of a larger one.
func (f *fakeEnsemble) member(t *testing.T, server string) *Member {
	t.Helper()
	f.calls = nil
	m, err := ReadMember(t.Context(), f, server, "/l")
	if err != nil {
		t.Fatal(err)
	}
	if f.calls[0] != "sync" {
		t.Errorf("read without a sync: %q", f.calls)
	}
	return m
}

// brief returns the differences, and whether the members agree.
func (c *Comparison) brief() string {
	var all []string
	for _, d := range c.Differences {
		text := d.Node + " " + d.Field
		for _, v := range d.Values {
			text += " " + v.Value + ":" + strings.Join(v.Servers, ",")
		}
		all = append(all, text)
	}
	if c.Agree {
		all = append(all, "agree")
	}
	return strings.Join(all, "; ")
}

func TestCompareMembers(t *testing.T) {
	const dataX = "1 bytes, SHA-256 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	for name, test := range map[string]struct {
		change func(f *fakeEnsemble) // changes the third member
		want   string
	}{
		"equal":     {func(*fakeEnsemble) {}, "agree"},
		"missing":   {func(f *fakeEnsemble) { delete(f.znodes, "/l/"+lock1) }, "/l/" + lock1 + " exists yes:a:1,b:1 no:c:1"},
		"an orphan": {func(f *fakeEnsemble) { f.make(1, "", "/l/README") }, "/l/README exists no:a:1,b:1 yes:c:1"},
		"recreated": {func(f *fakeEnsemble) { f.make(1, "", "/l/"+lock1) }, "/l/" + lock1 + " czxid 0x2:a:1,b:1 0x3:c:1"},
		"another owner": {func(f *fakeEnsemble) {
			f.znodes["/l/"+lock1] = Node{Stat: &zk.Stat{Czxid: 2, EphemeralOwner: 5}}
		}, "/l/" + lock1 + " ephemeralOwner 0x1:a:1,b:1 0x5:c:1"},
		"other data": {func(f *fakeEnsemble) {
			f.znodes["/l/"+lock1] = Node{Data: []byte("x"), Stat: f.znodes["/l/"+lock1].Stat}
		}, "/l/" + lock1 + " data 0 bytes, SHA-256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855:a:1,b:1 " + dataX + ":c:1"},
		"hidden data": {func(f *fakeEnsemble) {
			f.znodes["/l/"+lock1] = Node{Hidden: true, Stat: f.znodes["/l/"+lock1].Stat}
		}, "agree"},
		"hidden Stat": {func(f *fakeEnsemble) { f.znodes["/l/"+lock1] = Node{Hidden: true, Stat: &zk.Stat{}} }, "agree"},
		"no path":     {func(f *fakeEnsemble) { f.znodes = map[string]Node{} }, "/l exists yes:a:1,b:1 no:c:1; /l/" + lock1 + " exists yes:a:1,b:1 no:c:1"},
	} {
		t.Run(name, func(t *testing.T) {
			var members []*Member
			for _, server := range []string{"a:1", "b:1", "c:1"} {
				f := newFakeEnsemble()
				f.make(0, "", "/l")
				f.make(1, "", "/l/"+lock1)
				if server == "c:1" {
					test.change(f)
				}
				members = append(members, f.member(t, server))
			}
			if got := CompareMembers("/l", members).brief(); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// A difference is reported only if both readings show it in the same form.
func TestConfirm(t *testing.T) {
	a, b := newFakeEnsemble(), newFakeEnsemble()
	for _, f := range []*fakeEnsemble{a, b} {
		f.make(0, "", "/l")
		f.make(1, "", "/l/"+lock1)
		f.make(1, "", "/l/"+lock2)
	}
	compare := func() *Comparison { return CompareMembers("/l", []*Member{a.member(t, "a:1"), b.member(t, "b:1")}) }
	delete(b.znodes, "/l/"+lock1)
	delete(b.znodes, "/l/"+lock2)
	first := compare()
	b.znodes["/l/"+lock2] = a.znodes["/l/"+lock2]
	a.make(1, "", "/l/"+lock3)
	second := compare()
	second.Confirm(first)
	if got := second.brief(); got != "/l/"+lock1+" exists yes:a:1 no:b:1" {
		t.Error(got)
	}
	b.znodes["/l/"+lock1], b.znodes["/l/"+lock3] = a.znodes["/l/"+lock1], a.znodes["/l/"+lock3]
	third := compare()
	third.Confirm(first)
	if got := third.brief(); got != "agree" {
		t.Error(got)
	}
}

// A member that could not be read is named, and the members do not agree then.
func TestCompareUnreadMember(t *testing.T) {
	f := newFakeEnsemble()
	f.make(0, "", "/l")
	unread := &Member{Server: "b:1", Problem: "connection refused"}
	for want, c := range map[string]*Comparison{
		"b:1 could not be read: connection refused\n1 of 2 members agree on /l (1 znode)\n":                                                               CompareMembers("/l", []*Member{f.member(t, "a:1"), unread}),
		"b:1 could not be read: connection refused\nnone of 1 members could be read\n":                                                                    CompareMembers("/l", []*Member{unread}),
		"NODE  FIELD   VALUE  SERVERS\n/l    exists  yes    a:1\n/l    exists  no     c:1\n2 of 2 members were read, and they disagree on /l (1 znode)\n": CompareMembers("/l", []*Member{f.member(t, "a:1"), newFakeEnsemble().member(t, "c:1")}),
		"1 of 1 members agree on /l (the znode does not exist)\n":                                                                                         CompareMembers("/l", []*Member{newFakeEnsemble().member(t, "c:1")}),
	} {
		var text strings.Builder
		if err := c.Text(&text); err != nil || text.String() != want {
			t.Errorf("%s\nwant %s (%v)", text.String(), want, err)
		}
		if c.Agree != strings.HasPrefix(want, "1 of 1") {
			t.Errorf("agree %v: %s", c.Agree, want)
		}
	}
}
