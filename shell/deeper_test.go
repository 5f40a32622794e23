package shell

import (
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// What is complete, and all that fits, gets a slash if it has children, and nothing else.
func TestCompleteGoesDeeper(t *testing.T) {
	c := newCompletion(t, newNodes(map[string][]string{
		"/": {"app", "leaf", "one", "one2", "with blank"}, "/app": {"a", "b"}, "/app/a": {"x"}, "/app/b": nil, "/leaf": nil, "/one": {"x"},
		"/with blank": {"x"},
	}))
	for before, want := range map[string]string{
		"get /app":          "get /app/",
		"get /app/a":        "get /app/a/",
		"get /ap":           "get /app", // first what is to be typed
		"get /app/b":        "",
		"get /leaf":         "",
		"get /none":         "",
		"get /one":          "", // or /one2
		"cd app":            "cd app/",
		`get "/with blank`:  "", // the quote is to be closed first
		`get "/with blank"`: `get "/with blank/`,
	} {
		zktest.Eventually(t, before+" becomes "+want, func() bool {
			p := c.complete(before)
			return !p.Pending && before[:p.From]+p.Begin == want || want == "" && p.Begin == "" && !p.Pending
		})
	}
}
