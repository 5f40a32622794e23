package app

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

// A file name may begin with ~/ in each option and in each setting whose value is described as a file.
func TestFileNamesBeginWithHome(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	const typed, want = "~/x", "/home/ann/x"
	o := defaults()
	set, _ := declare(&o)
	checked := 0
	set.VisitAll(func(f *pflag.Flag) {
		described, _ := pflag.UnquoteUsage(f)
		isFile := commands.FlagParam(f).Kind == commands.File
		if isFile != (described == "file") {
			t.Errorf("--%s: the help calls the value %q, declared as a file: %t", f.Name, described, isFile)
		}
		if !isFile {
			return
		}
		checked++
		zktest.Must(t, set.Set(f.Name, typed))
		if got := f.Value.String(); got != want {
			t.Errorf("--%s %s: %s, want %s", f.Name, typed, got, want)
		}
	})
	if checked < 9 {
		t.Errorf("only %d options were checked", checked)
	}
	wanted := []string{o.AuthFile, o.Secure.CACert, o.Secure.Cert, o.Secure.Key, o.Secure.ClientConfiguration, o.Secure.JAAS}
	for _, s := range settings {
		if s.value != "file" {
			continue
		}
		fromFile := Options{configFile: "/etc/config"}
		zktest.Must(t, s.set(&fromFile, typed))
		got := []string{fromFile.AuthFile, fromFile.Secure.CACert, fromFile.Secure.Cert, fromFile.Secure.Key, fromFile.Secure.ClientConfiguration, fromFile.Secure.JAAS}
		set := 0
		for i, name := range got {
			if name != "" {
				if set++; name != wanted[i] {
					t.Errorf("%s = %s: %s, want %s", s.key, typed, name, wanted[i])
				}
			}
		}
		if set != 1 {
			t.Errorf("%s = %s sets %q", s.key, typed, got)
		}
	}
}
