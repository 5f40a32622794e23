package commands

import "testing"

func TestParsePlace(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	for word, want := range map[string]Place{
		"/a":                      {Path: "/a"},
		"/a:/b":                   {Path: "/a:/b"},
		"a":                       {Path: "a"},
		":/a":                     {Path: ":/a"},
		"./f":                     {File: "./f"},
		"../f:/a":                 {File: "../f", Path: "/a"},
		"file:f":                  {File: "f"},
		"~/f":                     {File: "/home/ann/f"},
		"~/f:/a":                  {File: "/home/ann/f", Path: "/a"},
		"file:~/f":                {File: "/home/ann/f"},
		"file:~/f:/a":             {File: "/home/ann/f", Path: "/a"},
		"~":                       {Path: "~"},
		"~ann/f":                  {Path: "~ann/f"},
		"file:a:/b:/c":            {File: "a:/b", Path: "/c"},
		"@prod:/a":                {Spec: "@prod", Path: "/a"},
		"zk1:2181,zk2:2181:/a:/b": {Spec: "zk1:2181,zk2:2181", Path: "/a:/b"},
		"zk1/chroot:/a":           {Spec: "zk1/chroot", Path: "/a"},
	} {
		if got := ParsePlace(word); got != want {
			t.Errorf("%s: %+v, want %+v", word, got, want)
		}
	}
}
