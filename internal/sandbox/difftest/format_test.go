package difftest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// A formatter turns frames into text that is equal for equal behaviour. It collects the
// times in them separately, because these may differ a little.
type formatter struct {
	firstZxid int64         // zxid before the first session
	sessions  map[int64]int // by id: number in the order of opening
	times     []int64
	created   []string // created paths
}

func (v *formatter) zxid(z int64) string {
	if z <= 0 {
		return fmt.Sprint(z)
	}
	return fmt.Sprintf("+%d", z-v.firstZxid)
}

func (v *formatter) owner(id int64) string {
	if n, ok := v.sessions[id]; ok {
		return fmt.Sprintf("s%d", n)
	}
	return fmt.Sprintf("0x%x", uint64(id))
}

func (v *formatter) time(t int64) string {
	if t == 0 {
		return "0"
	}
	v.times = append(v.times, t)
	return "t"
}

func (v *formatter) stat(d *jute.Decoder) string {
	return fmt.Sprintf("{cz %s mz %s ct %s mt %s v %d cv %d av %d own %s len %d kids %d pz %s}",
		v.zxid(d.Long()), v.zxid(d.Long()), v.time(d.Long()), v.time(d.Long()), d.Int(), d.Int(), d.Int(),
		v.owner(d.Long()), d.Int(), d.Int(), v.zxid(d.Long()))
}

func (v *formatter) buffer(d *jute.Decoder) string {
	b := d.Buffer()
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", fixSurrogates.Replace(string(b)))
}

func (v *formatter) path(d *jute.Decoder) string {
	p := d.String()
	v.created = append(v.created, p)
	return p
}

func sorted(list []string) string {
	slices.Sort(list)
	return fmt.Sprintf("%q", list)
}

// fixSurrogates replaces the two surrogates that Java writes for a character beyond 16
// bits. The character is the only such one in badPaths.
var fixSurrogates = strings.NewReplacer("\xed\xa0\xbd\xed\xb8\x80", "😀")

// frame formats a reply to op, or an event.
func (v *formatter) frame(op int32, f rawzk.Frame) string {
	d := jute.NewDecoder(f.Body)
	var body string
	switch {
	case f.Xid == -1:
		body = fmt.Sprintf("type %d state %d %q", d.Int(), d.Int(), fixSurrogates.Replace(d.String()))
	case f.Xid == -2:
	case len(f.Body) > 0:
		body = v.body(op, d)
	}
	if d.Err() != nil {
		body += " CUT SHORT"
	}
	if rest := d.Rest(); len(rest) > 0 {
		body += fmt.Sprintf(" AND %x", rest)
	}
	return fmt.Sprintf("xid %d zxid %s err %d %s", f.Xid, v.zxid(f.Zxid), f.Err, body)
}

func (v *formatter) body(op int32, d *jute.Decoder) string {
	switch op {
	case jute.OpCreate:
		return v.path(d)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return v.path(d) + v.stat(d)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		return v.stat(d)
	case jute.OpGetData:
		return v.buffer(d) + v.stat(d)
	case jute.OpGetACL:
		var list []string
		for range d.Count(12, 40) {
			list = append(list, fmt.Sprintf("%d %s %s", d.Int(), d.String(), d.String()))
		}
		return sorted(list) + v.stat(d)
	case jute.OpGetChildren, jute.OpGetEphemerals:
		return sorted(d.Strings())
	case jute.OpGetChildren2:
		return sorted(d.Strings()) + v.stat(d)
	case jute.OpSync, jute.OpSASL:
		return v.buffer(d)
	case jute.OpAddWatch, jute.OpGetAllChildrenNumber:
		return fmt.Sprint(d.Int())
	case jute.OpWhoAmI:
		var list []string
		for range d.Count(8, 2*jute.StringCost) {
			list = append(list, d.String()+" "+d.String())
		}
		return sorted(list)
	case jute.OpMulti, jute.OpMultiRead:
		return v.results(d)
	}
	return ""
}

func (v *formatter) results(d *jute.Decoder) string {
	var b strings.Builder
	for d.Err() == nil {
		typ, done, err := d.Int(), d.Bool(), d.Int()
		fmt.Fprintf(&b, "[%d %v %d", typ, done, err)
		switch {
		case done:
			return b.String() + "]"
		case typ == -1:
			fmt.Fprintf(&b, " %d", d.Int())
		case typ != jute.OpDelete && typ != jute.OpCheck:
			b.WriteString(" " + v.body(typ, d))
		}
		b.WriteString("]")
	}
	return b.String()
}
