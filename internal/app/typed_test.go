package app

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// readTyped splits a line up to the cursor as shells do.
func TestReadTyped(t *testing.T) {
	const breaks = " \t\n\"'@><=;|&(:"
	for line, want := range map[string]string{
		"":                             "||",
		"zksh":                         "|zksh|zksh",
		"zksh ":                        "||",
		"zksh get /a":                  "get|/a|/a",
		"  zksh  get\t/a ":             "get,/a||",
		"/usr/bin/zksh get ":           "get||",
		"sudo -u me zksh get /a":       "get|/a|/a",
		"zk get /a":                    "get|/a|/a",
		`zksh get "/with blank" '/x y`: "get,/with blank|/x y|/x y",
		`zksh get /with\ bl`:           "get|/with bl|/with bl",
		`zksh get "a\"b\c`:             `get|a"b\c|a"b\c`,
		`zksh get ab"cd e`:             "get|abcd e|cd e",
		`zksh get "ab"cd`:              "get|abcd|cd",
		"zksh -server h:2181":          "-server|h:2181|2181",
		"zksh --output=js":             "|--output=js|js",
		"zksh @pr":                     "|@pr|pr",
		"zksh get '/a:b":               "get|/a:b|/a:b",
		`zksh get /a\:b:c`:             "get|/a:b:c|c",
		`zksh get \`:                   `get|\|\`,
		"zksh set /a ''":               "set,/a||",
		"zksh set '' /中":               "set,|/中|/中",
	} {
		got := readTyped(line, breaks, false)
		var words []string
		for _, w := range got.words {
			words = append(words, w.Text)
		}
		if have := strings.Join(words, ",") + "|" + got.text + "|" + got.text[got.fixed:]; have != want {
			t.Errorf("%q: %q, want %q", line, have, want)
		}
	}
	if got := readTyped(`zksh get '/it\'s`, "", true); got.text != "/it's" {
		t.Errorf("fish: %q", got.text)
	}
}

// withinTime returns in time, even if the work ignores its context.
func TestCompletionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		text := withinTime(func(ctx context.Context) string {
			<-ctx.Done()
			time.Sleep(time.Hour) // simulates a blocking system call
			return "late"
		})
		if took := time.Since(begun); text != "" || took > 200*time.Millisecond {
			t.Errorf("%q after %s", text, took)
		}
		if text := withinTime(func(context.Context) string { return "soon" }); text != "soon" {
			t.Errorf("%q", text)
		}
		time.Sleep(2 * time.Hour) // let the goroutine end
	})
}
