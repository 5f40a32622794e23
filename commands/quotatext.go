package commands

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// quota is the content of a limits or stats znode: -1 means unlimited.
type quota map[string]int64

func (q quota) get(key string) int64 {
	if v, ok := q[key]; ok {
		return v
	}
	return -1
}

// String is the form servers write from 3.7 on (StatsTrack.toString): count and
// bytes, then any other key in sorted order. The odd "=" lets 3.4 read it.
func (q quota) String() string {
	s := fmt.Sprintf("count=%d,bytes=%d", q.get("count"), q.get("bytes"))
	sep := "=;"
	for _, k := range slices.Sorted(maps.Keys(q)) {
		if k != "count" && k != "bytes" {
			s += fmt.Sprintf("%s%s=%d", sep, k, q[k])
			sep = ";"
		}
	}
	return s
}

// parseQuota reads either form: fields between commas or semicolons, each
// key=number with perhaps a trailing "=".
func parseQuota(data []byte) (quota, error) {
	q := quota{}
	fields := strings.FieldsFunc(string(data), func(r rune) bool { return r == ',' || r == ';' })
	for _, f := range fields {
		key, text, ok := strings.Cut(strings.TrimSuffix(f, "="), "=")
		v, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("malformed quota %q", data)
		}
		q[key] = v
	}
	if len(q) == 0 {
		return nil, fmt.Errorf("malformed quota %q", data)
	}
	return q, nil
}

// guardQuota refuses to write what would end a real server's process (3.8.0): it
// reads a stats znode at the next write below the path it counts, and does not
// survive malformed text there.
func guardQuota(env *Env, path string, data []byte) error {
	server := env.Session.ServerPath(path)
	if !strings.HasPrefix(server, quotaRoot+"/") || !strings.HasSuffix(server, "/"+statsName) {
		return nil
	}
	if _, err := parseQuota(data); err != nil {
		return fmt.Errorf("%s is refused for %s: a server can end over it; setquota writes well-formed quotas", strconv.Quote(string(data)), path)
	}
	return nil
}
