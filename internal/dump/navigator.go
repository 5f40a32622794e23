package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// A ZooNavigator export is a JSON array of trees. A tree is an object with two fields: h describes
// the root znode, and t is an array of the trees below it.

// permissionNames lists the names that ZooNavigator uses for the permissions.
var permissionNames = []struct {
	name string
	perm int32
}{
	{"create", zk.PermCreate}, {"read", zk.PermRead}, {"write", zk.PermWrite}, {"delete", zk.PermDelete}, {"admin", zk.PermAdmin},
}

// navigatorNode is the value of the JSON field h, which describes the root znode of a tree.
type navigatorNode struct {
	Path *string                   `json:"path"`
	Data []byte                    `json:"data"`
	ACL  limitedList[navigatorACL] `json:"acl"`
}

type navigatorACL struct {
	ID          string   `json:"id"`
	Scheme      string   `json:"scheme"`
	Permissions []string `json:"permissions"`
}

func (h *navigatorNode) znode() (*Znode, error) {
	if h.Path == nil {
		return nil, errors.New("the file contains a znode without a path")
	}
	z := &Znode{Path: *h.Path, Data: h.Data}
	for _, a := range h.ACL {
		acl := zk.ACL{Scheme: a.Scheme, ID: a.ID}
		for _, name := range a.Permissions {
			bit := int32(0)
			for _, p := range permissionNames {
				if p.name == name {
					bit = p.perm
				}
			}
			if bit == 0 {
				return nil, fmt.Errorf("%s: unknown permission %q", shorten(z.Path), shorten(name))
			}
			acl.Perms |= bit
		}
		z.ACL = append(z.ACL, acl)
	}
	return z, nil
}

// readNavigator reads a ZooNavigator export. It does not use recursion, because the trees may be
// deeply nested.
func readNavigator(in *input) (t *Tree, err error) {
	m := &entryReader{r: in, left: maxEntry}
	d := json.NewDecoder(m)
	b := newBuilder(Navigator, in.file)
	defer func() {
		if err != nil {
			err = errors.Join(unexpectedEOF(err), b.t.Close())
		}
	}()
	var open []json.Delim // arrays and objects that have begun but not ended yet
	for first := true; first || len(open) > 0; first = false {
		m.left = maxEntry
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		inTree := len(open) > 0 && open[len(open)-1] == '{'
		switch v := token.(type) {
		case json.Delim:
			switch {
			case v == ']' || v == '}':
				open = open[:len(open)-1]
			case (v == '[') != (inTree || first):
				return nil, errNoTrees
			case len(open) > 2*jute.MaxLevels:
				return nil, fmt.Errorf("the tree in the file exceeds the limit of %d levels", jute.MaxLevels)
			default:
				open = append(open, v)
			}
		case string:
			if !inTree {
				return nil, errNoTrees
			}
			if v == "t" {
				continue
			}
			var h navigatorNode
			if err := d.Decode(&h); err != nil {
				return nil, err
			}
			if v != "h" {
				return nil, errNoTrees
			}
			z, err := h.znode()
			if err == nil {
				err = b.add(z)
			}
			if err != nil {
				return nil, err
			}
		default:
			return nil, errNoTrees
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file contains data after the end of the export")
	}
	if t, err = b.finish(true); err == nil {
		t.Header.Root = t.Root()
	}
	return t, err
}

var errNoTrees = errors.New("the file is not a ZooNavigator export: it does not contain trees")
