package commands_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
)

// A typist answers the questions for a secret, in order.
type typist struct {
	commandtest.Screen
	types []string
	asked []string
}

func (s *typist) AskSecret(_ context.Context, question string) (string, error) {
	s.asked = append(s.asked, question)
	if len(s.types) < len(s.asked) {
		return "", errors.New("nobody answers")
	}
	return s.types[len(s.asked)-1], nil
}

func runDigest(t *testing.T, env *commands.Env, user string) error {
	t.Helper()
	l, err := commands.NewRegistry(commands.All()).Find("digest").Read(env, []commands.Word{{Text: user}})
	if err != nil {
		t.Fatal(err)
	}
	return l.Run(zktest.Within(t), env)
}

// The digest of user:secret is the output of: echo -n user:secret | openssl sha1 -binary | base64
const digestOfUser = "user:5w9W4eL3797Y4Wq8AcKUPPk8ha4="

// At the prompt, digest asks for the password twice, and prints nothing but the digest.
func TestDigestAsks(t *testing.T) {
	for _, c := range []struct {
		types []string
		want  string // the digest or the error
	}{
		{[]string{"secret", "secret"}, digestOfUser + "\n"},
		{[]string{"secret", "secret "}, "the two passwords differ; run digest again"},
		{[]string{""}, "the password is empty"},
		{[]string{"secret"}, "nobody answers"},
	} {
		s := &typist{types: c.types}
		err := runDigest(t, &commands.Env{Screen: s, Mode: commands.ByHand}, "user")
		if got := s.Printed(); err == nil && got != c.want || err != nil && (err.Error() != c.want || got != "") {
			t.Errorf("%q: printed %q, %v; want %q", c.types, got, err, c.want)
		}
		if !strings.Contains(s.asked[0], "password of user (not shown)") {
			t.Errorf("asked %q", s.asked)
		}
	}
}

// Standard input of a single command contains the password. One line break at its end is ignored.
func TestDigestReadsThePassword(t *testing.T) {
	for stdin, want := range map[string]string{
		"secret":           digestOfUser,
		"secret\n":         digestOfUser,
		"secret\r\n":       digestOfUser,
		"secret\n\n":       "the password has more than one line",
		"secret\nsecret\n": "the password has more than one line",
		"":                 "the password is empty",
		"\n":               "the password is empty",
	} {
		var s typist
		err := runDigest(t, &commands.Env{Screen: &s, Stdin: strings.NewReader(stdin)}, "user")
		if got := s.Printed(); err == nil && got != want+"\n" || err != nil && (!strings.HasPrefix(err.Error(), want) || got != "") {
			t.Errorf("%q: printed %q, %v; want %q", stdin, got, err, want)
		}
	}
	s := typist{Screen: commandtest.Screen{Format: render.JSON}}
	if err := runDigest(t, &commands.Env{Screen: &s, Stdin: strings.NewReader("secret")}, "user"); err != nil || s.Printed() != `{"user":"user","digest":"`+digestOfUser+`"}`+"\n" {
		t.Errorf("%q, %v", s.Printed(), err)
	}
}

func TestDigestRejects(t *testing.T) {
	for user, want := range map[string]string{
		"":       "the user must not be empty or contain a colon",
		"u:p":    "the user must not be empty or contain a colon",
		"script": "a script cannot contain the password",
	} {
		var s typist
		err := runDigest(t, &commands.Env{Screen: &s, Mode: commands.Batch}, user)
		if err == nil || !strings.Contains(err.Error(), want) || len(s.asked) > 0 {
			t.Errorf("%q: %v; want %s", user, err, want)
		}
	}
	var s typist
	_, err := commands.NewRegistry(commands.All()).Find("digest").Read(&commands.Env{Screen: &s}, []commands.Word{{Text: "user"}, {Text: "secret"}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
