//go:build unix

package e2e

import (
	"strings"
	"testing"
)

// TestCd goes about in windows of several widths, by Tab, and among Chinese names.
func TestCd(t *testing.T) {
	for _, columns := range []int{60, 80, 200} {
		s := openScreen(t, columns, 24)
		s.line("create /app")
		s.line("create /app/配置 1")
		s.want(`^Created /app/配置$`)
		s.text("cd ap")
		s.keys("Tab")
		s.until("the only child is not taken", func(shown string) bool { return strings.HasSuffix(bare(shown), "2]cdapp") })
		s.keys("Enter")
		want := func(folder, n string) {
			t.Helper()
			s.until("no prompt with "+folder, func(shown string) bool {
				return strings.HasSuffix(bare(shown), bare("[zk: "+s.server+"(CONNECTED)"+folder+n+"]"))
			})
		}
		want("/app", "3")
		s.text("get ")
		s.keys("Tab")
		s.until("the only child is not taken", func(shown string) bool { return strings.HasSuffix(bare(shown), "3]get配置") })
		s.keys("Enter")
		want("/app", "4")
		s.line("cd 配置")
		want("/app/配置", "5")
		s.line("cd -")
		want("/app", "6")
		s.line("cd ~")
		want("", "7")
		s.line("pwd")
		s.want(`^/$`)
	}
}
