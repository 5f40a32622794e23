package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
)

// newTestQueue returns a queue of three contenders. The second one has a note in Chinese.
func newTestQueue(t *testing.T) *Queue {
	var nodes []*node
	c := &cluster.Clients{Addrs: map[int64]string{}, All: true}
	for i, name := range []string{uuid + "-__WRIT__0000000001", uuid + "-__READ__0000000002", hex32 + "__lock__0000000003"} {
		n := newTestNode(t, name)
		n.Stat.EphemeralOwner, n.Stat.Czxid, n.Stat.Ctime = 0x100001255200005+int64(i), int64(i+1), time.Now().UnixMilli()
		n.Data = []byte(`{"host":"web1.example.org","pid":4711,"user":"ann","note":"nightly backup of all"}`)
		if i == 1 {
			n.Data = []byte(`{"host":"web2","pid":47,"user":"李","note":"每夜備份所有的資料庫"}`)
		}
		nodes = append(nodes, n)
		c.Addrs[n.Stat.EphemeralOwner] = fmt.Sprintf("192.168.100.%d:51234", 100+i)
	}
	q := newQueue("/l", contents{nodes: nodes})
	q.addClients(c)
	return q
}

// The list fits the terminal and shows notes as long as possible. A shortened znode name shows
// the mode, and Find accepts it.
func TestFit(t *testing.T) {
	q := newTestQueue(t)
	for columns, want := range map[int][2]string{
		20:  {"holds", "waits"},
		40:  {"nightly b…", "每夜備份"},
		60:  {"write  holds  0s   nightly backup of all", "read   waits  0s   每夜備份所有的資料庫"},
		80:  {"nightly backup of all (ann@web1.example.or…", "每夜備份所有的資料庫 (李@web2 pid 47)"},
		100: {"nightly backup of all (ann@web1.example.org pid 4711)", "每夜備份所有的資料庫"},
		200: {"nightly backup of all", "每夜備份所有的資料庫"},
	} {
		var b strings.Builder
		if err := q.FitText(&b, columns); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != 4 {
			t.Fatalf("%d columns: %q", columns, lines)
		}
		for i, l := range lines {
			if render.Width(l) >= columns {
				t.Errorf("%d columns: a line of %d: %s", columns, render.Width(l), l)
			}
			if i == 0 {
				continue
			}
			words := strings.Fields(l)
			node := words[len(words)-1]
			if got, err := q.Find(node); got != "/l/"+q.Contenders[i-1].Node {
				t.Errorf("%d columns: %s is %q, %v", columns, node, got, err)
			}
			mark := []string{"WRIT", "READ", "lock"}[i-1]
			if i < 3 && !strings.Contains(l, want[i-1]) || columns >= 40 && !strings.Contains(node, mark) {
				t.Errorf("%d columns: %q, want %q and %q in it", columns, l, want, mark)
			}
		}
	}
	if l := q.lines(0)[1]; !strings.HasSuffix(l, "  "+uuid+"-__WRIT__0000000001") {
		t.Errorf("in a pipe: %q", l)
	}
}

func TestShortNode(t *testing.T) {
	for _, c := range []struct {
		name    string
		columns int
		want    string
	}{
		{uuid + "-lock-0000000012", 99, uuid + "-lock-0000000012"},
		{"/l/" + uuid + "-lock-0000000012", 55, uuid + "-lock-0000000012"},
		{uuid + "-lock-0000000012", 25, "_c_f0a1b…-lock-0000000012"},
		{uuid + "-lock-0000000012", 17, "…lock…0000000012"},
		{uuid + "-lock-0000000012", 12, "…lock…000012"},
		{uuid + "-lock-0000000012", 9, "_c_…00012"},
		{uuid + "-read-lock-0000000012", 12, "…read…000012"},
		{uuid + "-__READ__0000000012", 12, "…READ…000012"},
		{uuid + "-lock--2147483648", 12, "…lock…483648"},
		{hex32 + "__rlock__0000000012", 12, "…rlock…00012"},
		{hex32, 12, "012345…bcdef"},
		{"x-72057594037927936-0000000012", 12, "x-7205…00012"},
		{"read-" + hex32 + "-lock-0000000012", 12, "read-0…00012"},
		{"_c_a-lock-0000000012", 1, "…"},
	} {
		if got := ShortNode(c.name, c.columns); got != c.want || render.Width(got) > c.columns {
			t.Errorf("%s in %d: %s, want %s", c.name, c.columns, got, c.want)
		}
	}
}

// The contents of a znode cannot control the terminal or add lines.
func TestListIsSafe(t *testing.T) {
	n := newTestNode(t, uuid+"-lock-0000000001")
	n.path = "/l/\x1b[31m" + n.name()
	n.Data = []byte(`{"host":"h","pid":1,"note":"a\u001b[2J\nb"}`)
	q := newQueue("/lock", contents{nodes: []*node{n}, ignored: []string{"a\x1b[2J\nb"}})
	for _, columns := range []int{0, 40, 80, 200} {
		if text := strings.Join(append(q.lines(columns), q.Remarks()...), ""); strings.ContainsAny(text, "\x1b\n") {
			t.Errorf("%q", text)
		}
	}
}
