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

// quotaRoot returns the path itself or its nearest ancestor that has a quota.
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

// quotaTarget splits the path of a node below /zookeeper/quota into the path that the
// quota applies to and the node's name.
func quotaTarget(path string) (target, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, quotaPath)
	if !ok {
		return "", "", false
	}
	target, name = parentOf(rest), nameOf(rest)
	return target, name, target != "" && target[0] == '/'
}

// quotaCreated counts a new node. If the node is a quota, it also puts the quota into
// effect.
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

// quotaAdd adds to the counters of the quota that applies to a path. Like ZooKeeper, it
// changes the data of the stats node without changing its version or firing watches.
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

// recount sets the counters of the quota on a path by counting the nodes of its subtree.
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

// statsText formats a quota as ZooKeeper writes zookeeper_stats: without the "=" before
// the semicolon of zookeeper_limits.
func statsText(q jute.Quota) string { return strings.Replace(q.String(), "=;", ";", 1) }

func (t *tree) replaceStats(n *node, q jute.Quota) {
	data := []byte(statsText(q))
	t.account("", 0, len(data)-len(n.data))
	n.data = data
}

// checkQuota returns an error if a write would exceed a hard limit. Soft limits are
// ignored: ZooKeeper only logs that they are exceeded.
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
	passes := func(most string, key string, more int64) bool {
		return more != 0 && limit.Get(most) > -1 && used.Get(key)+more > limit.Get(most)
	}
	if passes(hardCount, keyCount, count) || passes(hardBytes, keyBytes, bytes) {
		return codeQuotaExceeded
	}
	return codeOK
}
