package commands

import "testing"

// A file for reconfig is sent completely, or it is an error. No line is ignored.
func TestParseMembers(t *testing.T) {
	for text, want := range map[string]string{
		"server.1=a:1:2": "server.1=a:1:2",
		"server.1=a:1:2:participant;3\nversion=100000000\n":                     "server.1=a:1:2:participant;3",
		"# c\r\n\r\nserver.1 = a:1:2;3 \r\nserver.2=b:1:2\r\n":                  "server.1=a:1:2;3,server.2=b:1:2",
		"server.1=[::1]:1:2|[::2]:1:2;3":                                        "server.1=[::1]:1:2|[::2]:1:2;3",
		"server.1=\\\n  a:1:2":                                                  "server.1=a:1:2",
		"server.1=a:1:2\nserver.2=b:1:2\ngroup.1=1:2\nweight.1=1\nweight.2=0":   "server.1=a:1:2,server.2=b:1:2,group.1=1:2,weight.1=1,weight.2=0",
		"group.1=1\nserver.1=a:1:2\nserver.2=b:1:2:observer;4\n":                "group.1=1,server.1=a:1:2,server.2=b:1:2:observer;4",
		"group.1=1\nserver.1=a:1:2\nserver.2=b:1:2:Observer|c:1:2:Observer;4\n": "group.1=1,server.1=a:1:2,server.2=b:1:2:Observer|c:1:2:Observer;4",

		"sever.2=b:1:2\nserver.1=a:1:2":             "! line 1: Unrecognised parameter: sever.2; the keys are server.N, group.N, weight.N and version",
		"server.1=a:1:2\nweigth.1=0":                "! line 2: Unrecognised parameter: weigth.1; the keys are server.N, group.N, weight.N and version",
		"server.1=a:1:2\ngroup1=1":                  "! line 2: Unrecognised parameter: group1; the keys are server.N, group.N, weight.N and version",
		"tickTime=2000\nserver.1=a:1:2":             "! line 1: Unrecognised parameter: tickTime; the keys are server.N, group.N, weight.N and version",
		"server.1=a:1:2\n\nweight.1=1":              "! line 1: server 1 is not in a group; in a file with groups or weights, every voting member must be in a group",
		"group.1=1\nserver.1=a:1:2\nserver.2=b:1:2": "! line 3: server 2 is not in a group; in a file with groups or weights, every voting member must be in a group",
		"server.1=a:1:2\ngroup.1=1:2":               "! line 2: group.1: the file has no line server.2",
		"server.1=a:1:2\ngroup.1=1\nweight.2=0":     "! line 3: weight.2: the file has no line server.2",
		"server.1=a:1:2\ngroup.1=1\ngroup.2=1":      "! line 3: server 1 is already in the group of line 2",
		"server.1=a:1:2\nserver.01=b:1:2":           "! line 2: server.1 is also in line 1",
		"server.1=a:1:2\ngroup.1=1\nweight.1=many":  `! line 3: weight.1: the weight "many" is not a whole number`,
		"server.1=a:1:2\ngroup.1=1\nweight.1=-1":    `! line 3: weight.1: the weight "-1" is not a whole number`,
		"server.1=a:1:2\ngroup.1=1,2":               "! line 2: group.1: the value contains a comma, a space or a backslash; write each entry on a line of its own",
		"server.1=a:1:2\ngroup.1=1 2":               "! line 2: group.1: the value contains a comma, a space or a backslash; write each entry on a line of its own",
		"server.1=a:1:2\ngroup.1=a":                 `! line 2: group.1: the id "a" is not a whole number`,
		"server.x=a:1:2":                            `! line 1: server.x: the id "x" is not a whole number`,
		"server.1=a:1:2\nserver.2=":                 "! line 2: server.2: the value is missing",
		"server.1=a:1:2\\nserver.2=b:1:2":           "! line 1: server.1: the value contains a comma, a space or a backslash; write each entry on a line of its own",
		"server.1=\\uzz":                            "! line 1: \\u must be followed by four hexadecimal digits",
		"":                                          "! the file contains no line server.N=…",
		"version=1":                                 "! the file contains no line server.N=…",
	} {
		got, err := parseMembers([]byte(text))
		if err != nil {
			got = "! " + err.Error()
		}
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}
