//go:build unix

package e2e

import "testing"

// At the prompt, the lines of a trace appear above the line that is being typed.
func TestTraceAtThePrompt(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	s.line("create /配置 1")
	s.want(` 1\]$`)
	s.line("trace on")
	s.want(` 2\]$`)
	s.line("get -w /配置")
	s.want(`(?s)< getData +/配置 +OK [0-9.]+ms[^\n]*\n1\n`)
	s.line("get /none")
	s.want(`(?s)< getData +/none +NoNode [0-9.]+ms[^\n]*\n[^\n]*/none`)
	s.text("get /配")
	s.want(`4\] get /配$`)
	oneShot(t, s.server, "set", "/配置", "2")
	s.want(`(?s)\* NodeDataChanged +/配置.*4\] get /配$`)
	s.keys("C-c")
	s.line("trace off")
	s.want(`trace off\n\[zk`)
}
