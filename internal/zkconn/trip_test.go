package zkconn

import (
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestCommutes(t *testing.T) {
	acl := OpenACL()
	created := Create("/a/b", nil, acl, CreateMode{})
	numbered := Create("/a/n-", nil, acl, CreateMode{Sequential: true})
	written, removed := SetData("/a/b", nil, -1), alone(Removal("/a/b", -1))
	get, list, gone := GetData("/a/b"), List("/a"), GetData("/x")
	watch := GetData("/x").Wake(make(chan<- zk.EventType))
	guarded := fenced(written, guard{nodes: []string{"/l/1"}})
	sibling, above := Create("/a/c", nil, acl, CreateMode{}), SetData("/a", nil, -1)
	check, sync := Check("/x", 1), request(9, "/x", (*answer).nothing, nil)
	of := map[string]footprint{
		"create": created.footprint(), "create -s": numbered.footprint(), "set": written.footprint(), "delete": removed.footprint(),
		"get": get.footprint(), "ls above": list.footprint(), "get elsewhere": gone.footprint(), "get -w": watch.footprint(),
		"set fenced": guarded.footprint(), "create beside": sibling.footprint(), "set above": above.footprint(),
		"check": check.footprint(), "sync": sync.footprint(),
	}
	commuting := map[[2]string]bool{}
	for _, pair := range [][2]string{
		{"get", "get elsewhere"}, {"get", "ls above"}, {"ls above", "get elsewhere"},
		{"create", "get elsewhere"}, {"create", "create beside"}, {"create -s", "get elsewhere"}, {"create -s", "set"}, {"create -s", "get"}, {"create -s", "set fenced"},
		{"set", "ls above"}, {"set", "get elsewhere"}, {"set", "create beside"}, {"set", "set above"},
		{"set fenced", "ls above"}, {"set fenced", "get elsewhere"}, {"set fenced", "create beside"}, {"set fenced", "set above"},
		{"delete", "get elsewhere"}, {"delete", "create beside"}, {"get", "create beside"}, {"get", "set above"},
		{"get elsewhere", "create beside"}, {"get elsewhere", "set above"},
	} {
		commuting[pair], commuting[[2]string{pair[1], pair[0]}] = true, true
	}
	for a, f := range of {
		for b, g := range of {
			want := commuting[[2]string{a, b}] || a == b && (a == "get" || a == "ls above" || a == "get elsewhere")
			if got := f.commutes(g); got != want {
				t.Errorf("%s and %s: %v", a, b, got)
			}
		}
	}
}
