package lockcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
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

// Only the JSON answer of an owner's lock contains its fence, which can have several lines.
func TestFenceOfOwnerIsJSON(t *testing.T) {
	answer := ownerLocked{lockLine{"locked", "/l", "owner", "ann"}, "h:1/a/b@1.2\nh:1/c/d@3.4"}
	data, err := json.Marshal(answer)
	zktest.Must(t, err)
	if want := `{"locked":"/l","owner":"ann","fence":"h:1/a/b@1.2\nh:1/c/d@3.4"}`; string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
	var text strings.Builder
	zktest.Must(t, answer.Text(&text))
	if text.String() != "locked /l owner=ann\n" {
		t.Errorf("%q", text.String())
	}
}
