package sandbox

import (
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

const (
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
	keyCount   = "count"
	keyBytes   = "bytes"
	hardCount  = "countHardLimit"
	hardBytes  = "byteHardLimit"
)

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
		q, _ := jute.ParseQuota(n.data)
		q[keyCount], q[keyBytes] = q.Get(keyCount)+count, q.Get(keyBytes)+bytes
		t.replaceStats(n, q)
	}
}

// recount sets the counters of a path from the tree.
func (t *tree) recount(path string) {
	q := jute.Quota{keyCount: 0, keyBytes: 0}
	t.walk(path, func(_ string, n *node) {
		q[keyCount]++
		q[keyBytes] += int64(len(n.data))
	})
	if n := t.nodes[quotaPath+path+"/"+statsName]; n != nil {
		t.replaceStats(n, q)
	}
}

// statsText is a quota's text without the odd "=", as the real one writes stats.
func statsText(q jute.Quota) string { return strings.Replace(q.String(), "=;", ";", 1) }

func (t *tree) replaceStats(n *node, q jute.Quota) {
	data := []byte(statsText(q))
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
	limit, ok := jute.ParseQuota(limits.data)
	used, ok2 := jute.ParseQuota(stats.data)
	if !ok || !ok2 {
		return codeMarshalling
	}
	passes := func(most string, key string, more int64) bool {
		return more != 0 && limit.Get(most) > -1 && used.Get(key)+more > limit.Get(most)
	}
	if passes(hardCount, keyCount, count) || passes(hardBytes, keyBytes, bytes) {
		return codeQuotaExceeded
	}
	return codeOK
}
