package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// authCommandLimit is the time limit of an auth-command. authCommandGrace is how long zksh waits
// for the program's output to be closed after that.
const (
	authCommandLimit = 10 * time.Second
	authCommandGrace = time.Second
)

// A credentialCache runs each auth-command once, and stores the first line of its output.
type credentialCache struct {
	busy  chan struct{}     // semaphore of capacity 1, which guards lines
	lines map[string]string // first lines, by command; secret
}

func newCredentialCache() *credentialCache {
	return &credentialCache{busy: make(chan struct{}, 1), lines: map[string]string{}}
}

// authenticate adds the credentials that the auth-command prints. It runs the command unless this
// process has already run it. The errors contain neither the command's arguments nor its output,
// because they may be secret.
func (o *Options) authenticate(ctx context.Context) error {
	if o.AuthCommand == "" {
		return nil
	}
	name := "auth-command " + commandName(o.AuthCommand)
	line, err := o.credentials.line(ctx, o.AuthCommand)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	list, sasl, err := parseCredentials([]byte(line), name)
	if err != nil {
		return err
	}
	o.Auth = append(o.Auth, list...)
	if sasl != nil && !o.Sandbox {
		o.Secured.Use(sasl, o.getenv)
	}
	return nil
}

// commandName returns the name of the program that a shell command runs. It skips assignments of
// variables, whose values may be secret.
func commandName(command string) string {
	for word := range strings.FieldsSeq(command) {
		if !strings.Contains(word, "=") {
			return word
		}
	}
	return "(no program)"
}

func (c *credentialCache) line(ctx context.Context, command string) (string, error) {
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if line, known := c.lines[command]; known {
		return line, nil
	}
	line, err := firstLine(ctx, command)
	if err == nil {
		c.lines[command] = line
	}
	return line, err
}

// shellCharacters lists the characters that have a meaning in a shell.
const shellCharacters = "|&;<>()$`\\\"'*?[]#~=%{}!"

// firstLine runs a shell command and returns the first line of its output.
func firstLine(ctx context.Context, command string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, authCommandLimit)
	defer cancel()
	var out beginning
	words := strings.Fields(command)
	if len(words) == 0 || strings.ContainsAny(command, shellCharacters) {
		words = []string{"sh", "-c", command}
	}
	cmd := exec.CommandContext(limited, words[0], words[1:]...) // without a shell in between, zksh can terminate the program itself
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, os.Stderr, authCommandGrace
	err := cmd.Run()
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		return "", fmt.Errorf("the command did not finish within %s; zksh has terminated it", authCommandLimit)
	case err != nil:
		return "", err
	}
	line, _, _ := bytes.Cut(out.data, []byte("\n"))
	text := strings.TrimSpace(string(line))
	if text == "" {
		return "", errors.New("the first line of its output is empty; expected SCHEME CREDENTIAL, for example digest user:password")
	}
	return text, nil
}

// A beginning stores the first bytes that are written to it, and discards the rest.
type beginning struct{ data []byte }

func (b *beginning) Write(p []byte) (int, error) {
	const limit = 64 << 10
	b.data = append(b.data, p[:min(len(p), limit-len(b.data))]...)
	return len(p), nil
}
