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

// quotaRoot returns the path of the node whose quota applies to the given path: the path itself
// or its nearest ancestor with a quota. It returns false if no quota applies.
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

// quotaTarget splits the path of a node below /zookeeper/quota into two parts: the path of the
// node to which the quota applies, and the last component, such as "zookeeper_limits".
func quotaTarget(path string) (target, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, quotaPath)
	if !ok {
		return "", "", false
	}
	target, name = parentOf(rest), nameOf(rest)
	return target, name, target != "" && target[0] == '/'
}

// quotaCreated counts a new node in the quota that applies to it. If the new node itself defines
// a quota, quotaCreated also puts that quota into effect.
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

// quotaAdd adds count nodes and bytes of data to the counters of the quota that applies to a path.
// The counters are the data of a zookeeper_stats node. As in ZooKeeper, quotaAdd changes this
// data without changing the node's version and without firing watches.
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

// recount counts the nodes of a subtree and their data, and stores the result in the counters of
// the quota on its root.
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

// statsText formats the data of a zookeeper_stats node as ZooKeeper does. The format differs from
// zookeeper_limits, where the semicolon follows an equals sign.
func statsText(q jute.Quota) string { return strings.Replace(q.String(), "=;", ";", 1) }

func (t *tree) replaceStats(n *node, q jute.Quota) {
	data := []byte(statsText(q))
	t.account("", 0, len(data)-len(n.data))
	n.data = data
}

// checkQuota returns an error if a write that adds count nodes and bytes of data would exceed a
// hard limit. It ignores soft limits: ZooKeeper only logs a warning when one is exceeded.
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
