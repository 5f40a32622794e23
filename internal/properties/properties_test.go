package properties

import (
	"fmt"
	"strings"
	"testing"
)

func TestProperties(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"a=b":                                "1 a=b",
		"a = b c \n":                         "1 a=b c ",
		"a:b\r\nc d\re":                      "1 a=b|2 c=d|3 e=",
		"# no\n! no\n\n \t a=b":              "4 a=b",
		"a=b\\\n   c\\\r\n d":                "1 a=bcd",
		"a=b\\\\\nc=d":                       `1 a=b\|2 c=d`,
		"a=b\\\n# c":                         "1 a=b# c",
		`a\=\:\ b=c\t\n\u0041\ud83d\ude00\q`: "1 a=: b=c\t\nA😀q",
		"a==b":                               "1 a==b",
		"a = = b":                            "1 a== b",
		"a=\xe4":                             "1 a=ä",
		"a=b\\":                              "1 a=b",
		`a=\u12`:                             "1: \\u must be followed by four hexadecimal digits",
		"\n\na=\\uzzzz":                      "3: \\u must be followed by four hexadecimal digits",
	} {
		var got []string
		for p, err := range Parse([]byte(text)) {
			if err != nil {
				got = append(got, err.Error())
			} else {
				got = append(got, fmt.Sprintf("%d %s=%s", p.Line, p.Key, p.Value))
			}
		}
		if have := strings.Join(got, "|"); have != want {
			t.Errorf("%q: %q, want %q", text, have, want)
		}
	}
}
