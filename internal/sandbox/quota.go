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

// quotaRoot returns the nearest node with a quota: the node at path itself, or one of its
// ancestors. It returns false if there is none.
func (t *tree) quotaRoot(path string) (string, bool) {
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

// quotaTarget splits the path of a node below /zookeeper/quota. target is the node to which the
// quota applies, and name is the last component, such as "zookeeper_limits".
func quotaTarget(path string) (target, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, quotaPath)
	if !ok {
		return "", "", false
	}
	target, name = parentOf(rest), nameOf(rest)
	return target, name, target != "" && target[0] == '/'
}

// quotaCreated counts a new node in the quota that applies to it. If the node itself defines a
// quota, quotaCreated puts that quota into effect.
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

// quotaAdd adds the given numbers of nodes and bytes to the counters of the quota that applies to
// path. The counters are the data of a zookeeper_stats node. As in ZooKeeper, updating them neither
// changes the node's version nor fires watches.
func (t *tree) quotaAdd(path string, count, bytes int64) {
	top, ok := t.quotaRoot(path)
	if !ok {
		return
	}
	if n := t.nodes[quotaPath+top+"/"+statsName]; n != nil {
		q, _ := jute.ParseQuota(n.data)
		q[keyCount], q[keyBytes] = q.Get(keyCount)+count, q.Get(keyBytes)+bytes
		t.replaceStats(n, q)
	}
}

// recount counts the nodes in the subtree at path, and the bytes of their data. It stores the
// results in the counters of the quota on path.
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

// statsText returns the data of a zookeeper_stats node in ZooKeeper's format. This format
// contains no "=;", unlike that of zookeeper_limits.
func statsText(q jute.Quota) string { return strings.Replace(q.String(), "=;", ";", 1) }

func (t *tree) replaceStats(n *node, q jute.Quota) {
	data := []byte(statsText(q))
	t.account("", 0, len(data)-len(n.data))
	n.data = data
}

// checkQuota returns an error if a write that adds count nodes and bytes of data would exceed a
// hard quota. It ignores soft quotas; if one is exceeded, ZooKeeper only logs a warning.
func (t *tree) checkQuota(path string, count, bytes int64) code {
	top, ok := t.quotaRoot(path)
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
	exceeds := func(most string, key string, more int64) bool {
		return more != 0 && limit.Get(most) > -1 && used.Get(key)+more > limit.Get(most)
	}
	if exceeds(hardCount, keyCount, count) || exceeds(hardBytes, keyBytes, bytes) {
		return codeQuotaExceeded
	}
	return codeOK
}
