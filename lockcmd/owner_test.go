package lockcmd

import (
	"strings"
	"testing"
)

func TestOwnerNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"web-1": true, "Anna Müller (张三)": true, "-n": true, "'": true,
		"": false, "a\nb": false, "a\x00": false, "\xff": false,
	} {
		if err := validateOwner(name); (err == nil) != valid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A command for a POSIX shell keeps each value as it is.
func TestFenceExport(t *testing.T) {
	for fence, want := range map[fenceExport]string{
		{Fence: "h:1/a/b@1.2"}:            "export ZK_LOCK_FENCE='h:1/a/b@1.2'\n",
		{Fence: "h:1/it's"}:               `export ZK_LOCK_FENCE='h:1/it'\''s'` + "\n",
		{Fence: "not held", failed: true}: "export ZK_LOCK_FENCE='not held'; false\n",
	} {
		var b strings.Builder
		if err := fence.Text(&b); err != nil || b.String() != want {
			t.Errorf("%+v: %q, %v", fence, b.String(), err)
		}
	}
}
