package jute

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Quota is the content of a limits or a stats znode (StatsTrack): numbers by key.
type Quota map[string]int64

// Get is a number; one that is not there is -1, "no limit".
func (q Quota) Get(key string) int64 {
	if v, ok := q[key]; ok {
		return v
	}
	return -1
}

// String is the form servers write from 3.7 on (StatsTrack.toString): count and
// bytes, then any other key in sorted order. The odd "=" lets 3.4 read it.
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

// ParseQuota reads "count=3,bytes=20=;countHardLimit=5": whatever follows a number's
// own "=" is passed over. It says whether the text was well-formed; a real server
// dies of a stats znode that is not.
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
