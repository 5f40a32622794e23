package shell

import (
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// Completing a path that is already the only match adds a slash if the znode has children.
func TestCompleteGoesDeeper(t *testing.T) {
	c := newCompletion(t, newNodes(map[string][]string{
		"/": {"app", "leaf", "one", "one2", "with blank"}, "/app": {"a", "b"}, "/app/a": {"x"}, "/app/b": nil, "/leaf": nil, "/one": {"x"},
		"/with blank": {"x"},
	}))
	for before, want := range map[string]string{
		"get /app":          "get /app/",
		"get /app/a":        "get /app/a/",
		"get /ap":           "get /app", // the name first, and the slash with the next Tab
		"get /app/b":        "",
		"get /leaf":         "",
		"get /none":         "",
		"get /one":          "", // /one2 matches too
		"cd app":            "cd app/",
		`get "/with blank`:  "", // no slash before the closing quote
		`get "/with blank"`: `get "/with blank/`,
	} {
		zktest.Eventually(t, before+" becomes "+want, func() bool {
			p := c.complete(before)
			return !p.Pending && before[:p.From]+p.CommonPrefix == want || want == "" && p.CommonPrefix == "" && !p.Pending
		})
	}
}
