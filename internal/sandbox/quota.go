package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
	keyCount   = "count"
	keyBytes   = "bytes"
	hardCount  = "countHardLimit"
	hardBytes  = "byteHardLimit"
)

// quota is the content of a limits or a stats node: numbers by key. A number
// that is not there is -1, "no limit".
type quota map[string]int64

func (q quota) get(key string) int64 {
	if v, ok := q[key]; ok {
		return v
	}
	return -1
}

// parseQuota reads "count=3,bytes=20=;countHardLimit=5": whatever follows a
// number's own "=" is passed over. It says whether the text was well-formed; the
// real server dies of a stats node that is not.
func parseQuota(data []byte) (quota, bool) {
	q, ok := quota{}, true
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

// bytes writes a quota the way the real one does: count, bytes, then the other
// keys sorted.
func (q quota) bytes() []byte {
	b := fmt.Appendf(nil, "%s=%d,%s=%d", keyCount, q.get(keyCount), keyBytes, q.get(keyBytes))
	for _, key := range slices.Sorted(maps.Keys(q)) {
		if key != keyCount && key != keyBytes {
			b = fmt.Appendf(b, ";%s=%d", key, q[key])
		}
	}
	return b
}

// governed returns the nearest path at or above this one that has a quota.
func (t *tree) governed(path string) (string, bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	for p := path; p != ""; p = parentOf(p) {
		if _, ok := t.quotas[p]; ok {
			return p, true
		}
		if p == "/" || p[0] != '/' {
			break
		}
	}
	return "", false
}

// quotaTarget says which path a node below /zookeeper/quota is about, and under
// which name.
func quotaTarget(path string) (target, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, quotaPath)
	if !ok {
		return "", "", false
	}
	target, name = parentOf(rest), nameOf(rest)
	return target, name, target != "" && target[0] == '/'
}

// quotaCreated accounts for a new node, and puts a quota in force if the node is
// one.
func (t *tree) quotaCreated(path string, n *node) {
	if target, name, ok := quotaTarget(path); ok {
		switch name {
		case limitsName:
			t.quotas[target] = struct{}{}
		case statsName:
			t.recount(target)
		}
	}
	t.quotaAdd(path, 1, int64(len(n.data)))
}

func (t *tree) quotaDeleted(path string, n *node) {
	if target, name, ok := quotaTarget(path); ok && name == limitsName {
		delete(t.quotas, target)
	}
	t.quotaAdd(path, -1, -int64(len(n.data)))
}

// quotaAdd moves the counters of the quota a path is under. Like the real one
// it changes the stats node's data in place: no version, no watch.
func (t *tree) quotaAdd(path string, count, bytes int64) {
	top, ok := t.governed(path)
	if !ok {
		return
	}
	if n := t.nodes[quotaPath+top+"/"+statsName]; n != nil {
		q, _ := parseQuota(n.data)
		q[keyCount], q[keyBytes] = q.get(keyCount)+count, q.get(keyBytes)+bytes
		t.replaceStats(n, q)
	}
}

// recount sets the counters of a path from the tree.
func (t *tree) recount(path string) {
	q := quota{keyCount: 0, keyBytes: 0}
	t.walk(path, func(_ string, n *node) {
		q[keyCount]++
		q[keyBytes] += int64(len(n.data))
	})
	if n := t.nodes[quotaPath+path+"/"+statsName]; n != nil {
		t.replaceStats(n, q)
	}
}

func (t *tree) replaceStats(n *node, q quota) {
	data := q.bytes()
	t.account("", 0, len(data)-len(n.data))
	n.data = data
}

// checkQuota refuses a write that would pass a hard limit. Soft limits only make
// the real server log a line.
func (t *tree) checkQuota(path string, count, bytes int64) code {
	top, ok := t.governed(path)
	if !ok {
		return codeOK
	}
	limits, stats := t.nodes[quotaPath+top+"/"+limitsName], t.nodes[quotaPath+top+"/"+statsName]
	if limits == nil || stats == nil {
		return codeOK
	}
	limit, ok := parseQuota(limits.data)
	used, ok2 := parseQuota(stats.data)
	if !ok || !ok2 {
		return codeMarshalling
	}
	passes := func(most string, key string, more int64) bool {
		return more != 0 && limit.get(most) > -1 && used.get(key)+more > limit.get(most)
	}
	if passes(hardCount, keyCount, count) || passes(hardBytes, keyBytes, bytes) {
		return codeQuotaExceeded
	}
	return codeOK
}
