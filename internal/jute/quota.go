package jute

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Quota is the content of a limits or stats znode, in the format of ZooKeeper's class
// StatsTrack. It maps keys such as "count" to numbers.
type Quota map[string]int64

// Get returns the number for a key, or -1 if the key is missing, which means "no limit".
func (q Quota) Get(key string) int64 {
	if v, ok := q[key]; ok {
		return v
	}
	return -1
}

// String formats a quota like servers since 3.7 (StatsTrack.toString): first count and bytes, then
// the other keys in sorted order. The "=" before the first ";" allows servers of version 3.4 to
// parse the text, too.
func (q Quota) String() string {
	s, sep := fmt.Sprintf("count=%d,bytes=%d", q.Get("count"), q.Get("bytes")), "=;"
	for _, key := range slices.Sorted(maps.Keys(q)) {
		if key != "count" && key != "bytes" {
			s += fmt.Sprintf("%s%s=%d", sep, key, q[key])
			sep = ";"
		}
	}
	return s
}

// ParseQuota parses text like "count=3,bytes=20=;countHardLimit=5". It ignores a second "=" and
// the text after it. ok reports whether data is well-formed. A malformed stats znode makes a
// real server terminate.
func ParseQuota(data []byte) (q Quota, ok bool) {
	q, ok = Quota{}, true
	for _, pair := range strings.FieldsFunc(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		value, _, _ = strings.Cut(value, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			ok = false
			continue
		}
		q[key] = n
	}
	return q, ok
}
