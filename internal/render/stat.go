package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
)

// Stat is a znode's Stat; its text is zkCli's block of eleven lines.
type Stat zk.Stat

// Hex prints a zxid or a session as zkCli does.
func Hex(v int64) string { return "0x" + strconv.FormatUint(uint64(v), 16) }

// field is one line of the block.
type field struct{ name, value string }

func (s *Stat) fields() []field {
	dec := func(v int32) string { return strconv.Itoa(int(v)) }
	return []field{
		{"cZxid", Hex(s.Czxid)},
		{"ctime", javaDate(s.Ctime)},
		{"mZxid", Hex(s.Mzxid)},
		{"mtime", javaDate(s.Mtime)},
		{"pZxid", Hex(s.Pzxid)},
		{"cversion", dec(s.Cversion)},
		{"dataVersion", dec(s.Version)},
		{"aclVersion", dec(s.Aversion)},
		{"ephemeralOwner", Hex(s.EphemeralOwner)},
		{"dataLength", dec(s.DataLength)},
		{"numChildren", dec(s.NumChildren)},
	}
}

// Text is zkCli's stat block.
func (s *Stat) Text(w io.Writer) error { return writeFields(w, s.fields()) }

func writeFields(w io.Writer, fields []field) error {
	for _, f := range fields {
		if _, err := fmt.Fprintf(w, "%s = %s\n", f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

// Table has a row for each field.
func (s *Stat) Table() Grid { return statGrid(s.fields()) }

func statGrid(fields []field) Grid {
	g := Grid{Header: []string{"field", "value"}}
	for _, f := range fields {
		g.Rows = append(g.Rows, []string{f.name, f.value})
	}
	return g
}

// MarshalJSON uses zkCli's field names; zxids and the session are strings in
// hexadecimal, times are RFC 3339 in UTC with milliseconds.
func (s *Stat) MarshalJSON() ([]byte, error) {
	iso := func(ms int64) string { return Time(time.UnixMilli(ms)) }
	return json.Marshal(struct {
		CZxid          string `json:"cZxid"`
		Ctime          string `json:"ctime"`
		MZxid          string `json:"mZxid"`
		Mtime          string `json:"mtime"`
		PZxid          string `json:"pZxid"`
		Cversion       int32  `json:"cversion"`
		DataVersion    int32  `json:"dataVersion"`
		ACLVersion     int32  `json:"aclVersion"`
		EphemeralOwner string `json:"ephemeralOwner"`
		DataLength     int32  `json:"dataLength"`
		NumChildren    int32  `json:"numChildren"`
	}{Hex(s.Czxid), iso(s.Ctime), Hex(s.Mzxid), iso(s.Mtime), Hex(s.Pzxid), s.Cversion, s.Version, s.Aversion,
		Hex(s.EphemeralOwner), s.DataLength, s.NumChildren})
}

// isoMillis is ISO 8601 with milliseconds.
const isoMillis = "2006-01-02T15:04:05.000Z07:00"

// Time is a time as JSON has it: RFC 3339 in UTC with milliseconds.
func Time(t time.Time) string { return t.UTC().Format(isoMillis) }

// HumanStat is a Stat with times that are easier to read. Its JSON is the Stat's.
type HumanStat struct {
	*Stat
	Now time.Time // times are told from here
}

func (s *HumanStat) fields() []field {
	all := s.Stat.fields()
	for i, f := range all {
		switch f.name {
		case "ctime":
			all[i].value = s.when(s.Ctime)
		case "mtime":
			all[i].value = s.when(s.Mtime)
		}
	}
	return all
}

func (s *HumanStat) when(ms int64) string {
	t := time.UnixMilli(ms)
	return t.Format(isoMillis) + " (" + ago(s.Now.Sub(t)) + ")"
}

// Text is zkCli's stat block but for the times.
func (s *HumanStat) Text(w io.Writer) error { return writeFields(w, s.fields()) }

// Table has a row for each field.
func (s *HumanStat) Table() Grid { return statGrid(s.fields()) }

// ago words how long ago something was, in its largest unit. Clocks differ, so
// what is still to come is now.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d m ago", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	case d < 1000*day:
		return fmt.Sprintf("%d days ago", d/day)
	}
	return fmt.Sprintf("%d years ago", d/(365*day))
}

// javaDate prints milliseconds since 1970 as java.util.Date does, in the local
// time zone.
func javaDate(ms int64) string {
	t := time.UnixMilli(ms)
	zone, _ := t.Zone()
	if strings.HasPrefix(zone, "+") || strings.HasPrefix(zone, "-") { // a zone without a name
		zone = "GMT" + t.Format("-07:00")
	}
	return t.Format("Mon Jan 02 15:04:05 ") + zone + t.Format(" 2006")
}

// Data is a znode's data. Nil is null, as distinct from empty.
type Data []byte

// MarshalJSON gives null, a string, or {"base64": …} for what is no UTF-8.
func (d Data) MarshalJSON() ([]byte, error) {
	switch {
	case d == nil:
		return []byte("null"), nil
	case utf8.Valid(d):
		return Marshal(string(d))
	}
	return json.Marshal(struct {
		Base64 []byte `json:"base64"`
	}{d})
}

// JavaList is java.util.List.toString: [a, b].
func JavaList(w io.Writer, items []string) error {
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	for i, s := range items {
		if i > 0 {
			if _, err := io.WriteString(w, ", "); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(w, s); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "]")
	return err
}
