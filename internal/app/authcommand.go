package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// Authenticate adds the credentials that the auth-command prints. It runs the command unless this
// process has already run it. The errors contain neither the command's arguments nor its output,
// because they may be secret.
func (o *Options) Authenticate(ctx context.Context) error {
	if o.AuthCommand == "" {
		return nil
	}
	name := "auth-command" // without the name of the program, because any word of the command can be secret
	if o.Cluster != "" {
		name += " of " + o.Cluster
	}
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
	line, _, complete := bytes.Cut(out.data, []byte("\n"))
	text := strings.TrimSpace(string(line))
	switch {
	case errors.Is(err, exec.ErrWaitDelay) && complete: // the command has ended, but an agent that it started keeps its output open
	case errors.Is(err, exec.ErrWaitDelay):
		return "", errors.New("the command ended, but a program that it started keeps its output open, and the first line does not" +
			" end with a line break; redirect the output of that program")
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return "", fmt.Errorf("the command did not finish within %s; zksh has terminated it", authCommandLimit)
	case err != nil:
		return "", withoutName(err)
	case !complete && len(out.data) == maxLine:
		return "", fmt.Errorf("the first line of its output has more than %d bytes", maxLine-1)
	case text == "" || text[0] == '#':
		return "", errors.New("the first line of its output contains no credential; expected " + credentialForm)
	}
	return text, nil
}

// withoutName removes the name of the program from an error. Somebody could have written a credential in
// place of the command.
func withoutName(err error) error {
	if e, is := errors.AsType[*exec.Error](err); is {
		return e.Err
	}
	if e, is := errors.AsType[*fs.PathError](err); is {
		return e.Err
	}
	return err
}

// maxLine is the maximum length of the first line of output, in bytes, including the line break.
const maxLine = 64 << 10

// A beginning stores the first maxLine bytes that are written to it, and discards the rest.
type beginning struct{ data []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(len(p), maxLine-len(b.data))]...)
	return len(p), nil
}
