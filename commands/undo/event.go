package undo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// An event is a line in the list of edits of an operation: an edit that is about to be sent, or what
// became of the edits From to To. An edit without a result has an unknown outcome.
type event struct {
	Does   deed     `json:"does,omitempty"`
	Path   string   `json:"path,omitempty"`   // for a result: path of the created znode, if it was not known before
	Image  int      `json:"image,omitempty"`  // number of the znode's old state in the dump, from 1; 0 if there is none
	Queued bool     `json:"queued,omitempty"` // whether the znode belonged to a lock queue, so that nothing was saved
	Wrote  string   `json:"wrote,omitempty"`  // hash of the data that the edit writes
	ACL    []zk.ACL `json:"acl,omitempty"`    // ACL that the edit writes; only of edits of an ACL
	Named  bool     `json:"named,omitempty"`  // whether the server adds a sequence number to the path
	// Restores are the versions that the znode had in the state that an undo restores; nil if unknown.
	Restores *versions `json:"restores,omitempty"`

	From  int   `json:"from,omitempty"`
	To    int   `json:"to,omitempty"`
	Made  *bool `json:"made,omitempty"`
	Czxid int64 `json:"czxid,omitempty"`

	number int
	image  *dump.Znode
}

// A deed is the action of an edit.
type deed string

const (
	creates deed = "create"
	sets    deed = "set"
	setsACL deed = "setAcl"
	deletes deed = "delete"
)

func newEvent(image *zktree.Image) event {
	ev := event{Path: image.Path, Named: image.Sequential}
	switch image.Does {
	case zktree.Creates, zktree.Sets:
		ev.Does = sets
		if image.Does == zktree.Creates {
			ev.Does = creates
		}
		if image.New != nil {
			ev.Wrote = hashOf(image.New.Data)
		}
	case zktree.Deletes:
		ev.Does = deletes
	default:
		ev.Does, ev.ACL = setsACL, image.New.ACL
	}
	return ev
}

// hashOf returns a hash of a znode's data, which differs for null and empty data.
func hashOf(data []byte) string {
	if data == nil {
		return "null"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// extend adds the result next to ev, if both can be written as one. It reports whether it did.
func (ev *event) extend(next event) bool {
	if ev.To+1 != next.From || *ev.Made != *next.Made || ev.Czxid != next.Czxid || ev.Path+next.Path != "" {
		return false
	}
	ev.To = next.To
	return true
}

// write writes the event as a line.
func (ev event) write(to *bytes.Buffer) error {
	line, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	to.Write(append(line, '\n'))
	return nil
}

// events reads the list of edits of an operation, with their results. The last line may be incomplete,
// if the shell was killed while it wrote the line.
func (s *store) events(n int) (edits []event, err error) {
	name := s.file(n, listFile)
	if err := userfile.Check(name); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return edits, nil
		}
		var ev event
		if err == nil {
			err = json.Unmarshal(line, &ev)
		}
		switch {
		case err != nil:
		case ev.Made == nil:
			err = zkconn.ValidatePath(ev.Path, ev.Named)
			edits = append(edits, ev)
		case ev.From < 1 || ev.To > len(edits) || ev.Path != "" && zkconn.ValidatePath(ev.Path, false) != nil:
			err = errors.New("it contains a result of an unknown edit")
		default:
			for i := ev.From - 1; i < ev.To; i++ {
				e := &edits[i]
				e.Made, e.Czxid = ev.Made, ev.Czxid
				if ev.Path != "" {
					e.Path, e.Named = ev.Path, false
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d is damaged: %w", name, number, err)
		}
	}
}

// A change is the effect of an operation on one znode.
type change struct {
	path   string
	before *dump.Znode // old state; nil if the znode did not exist
	lost   bool        // whether the old state could not be saved
	queued bool        // whether the znode belonged to a lock queue, and is not restored
	left   *versions   // versions after the operation; nil if the operation has deleted the znode
	what   zktree.Aspect
	wrote  string   // hash of the data that was written last; empty if unknown
	acl    []zk.ACL // ACL that was written last; nil if unknown
	maybe  bool     // whether the outcome of an edit is unknown
	image  int      // number of the old state in the dump

	restores *versions // versions of the state that an undo has restored; nil if there is none
}

// versions identify a state of a znode.
type versions struct {
	Czxid int64 `json:"czxid"` // 0 if unknown
	Data  int32 `json:"data"`
	ACL   int32 `json:"acl"`
}

func versionsOf(st *zk.Stat) *versions { return &versions{st.Czxid, st.Version, st.Aversion} }

// changes returns what an operation did to each znode, in the order of the paths.
func (s *store) changes(ctx context.Context, e *entry) ([]*change, error) {
	if err := userfile.Check(s.file(e.N, dumpFile)); err != nil {
		return nil, err
	}
	events, err := s.events(e.N)
	if err != nil {
		return nil, err
	}
	byPath := map[string]*change{}
	var all []*change
	needed := map[int]*change{}
	for _, ev := range events {
		if ev.Made != nil && !*ev.Made || byPath[ev.Path] != nil {
			continue
		}
		c := &change{path: ev.Path, queued: ev.Queued, image: ev.Image, lost: ev.Does != creates && ev.Image == 0}
		if ev.Does == creates {
			c.lost, c.image = ev.Named, 0 // if the znode exists, its name is unknown
		}
		if c.image > 0 {
			needed[c.image] = c
		}
		byPath[ev.Path] = c
		all = append(all, c)
	}
	if err := s.readImages(ctx, e.N, needed); err != nil {
		return nil, err
	}
	for _, ev := range events {
		if ev.Made == nil || *ev.Made {
			byPath[ev.Path].apply(ev)
		}
	}
	slices.SortFunc(all, func(a, b *change) int { return dump.InOrder(a.path, b.path) })
	return all, nil
}

// apply adds an edit, which was made or may have been, to the change.
func (c *change) apply(ev event) {
	c.maybe = c.maybe || ev.Made == nil
	if c.left == nil && c.before != nil && c.what == 0 && c.before.Stat != nil {
		c.left = versionsOf(c.before.Stat)
	}
	c.restores = ev.Restores
	switch ev.Does {
	case creates:
		c.left, c.what, c.wrote, c.acl = &versions{Czxid: ev.Czxid}, zktree.DataDiffers|zktree.ACLDiffers, ev.Wrote, nil
	case deletes:
		c.left, c.what = nil, zktree.DataDiffers|zktree.ACLDiffers
	case sets:
		c.what, c.wrote = c.what|zktree.DataDiffers, ev.Wrote
		if c.left != nil {
			c.left.Data++
		}
	case setsACL:
		c.what, c.acl = c.what|zktree.ACLDiffers, ev.ACL
		if c.left != nil {
			c.left.ACL++
		}
	}
}

// readImages reads the old states of the given changes from the dump of an operation. The map is by
// their numbers in the dump.
func (s *store) readImages(ctx context.Context, n int, needed map[int]*change) (err error) {
	name := s.file(n, dumpFile)
	if len(needed) == 0 {
		return nil
	}
	f, err := dump.OpenFile(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	number, part := 0, 0 // part is the one that contains the latest needed state
	for z, err := range f.Znodes() {
		if err != nil {
			if len(needed) == 0 && f.Part > part { // a killed shell has not written the last part completely
				return nil
			}
			return err
		}
		number++
		c := needed[number]
		if c == nil {
			continue
		}
		if z.Path != c.path {
			return fmt.Errorf("%s contains %s in place of %s", name, z.Path, c.path)
		}
		c.before, part = z, f.Part
		delete(needed, number)
	}
	if len(needed) > 0 {
		return fmt.Errorf("%s is incomplete: %w", name, fs.ErrNotExist)
	}
	return nil
}
