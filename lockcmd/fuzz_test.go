package lockcmd

import "testing"

// FuzzPosts reads lines of ZK_LOCK_FENCE. Each stands for a post or a fault: none is left
// out, or its lock would fence nothing.
func FuzzPosts(f *testing.F) {
	f.Add("127.0.0.1:2181/l/_c_x-lock-0000000000@1f.18c")
	f.Add("a,b/c@1.2,3.4@prod\n[::1]:1/x\n\n/x@")
	f.Fuzz(func(t *testing.T, lines string) {
		for _, p := range postsOf(lines) {
			if p.fault == nil && (p.node == "" || len(p.hosts) == 0) {
				t.Errorf("%q: %+v", lines, p)
			}
		}
	})
}
