package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/zksh/zksh/internal/peer"
)

// notAllowed is part of a server's reply to a four-letter command that is not in the server's
// whitelist.
const notAllowed = "is not executed because it is not in the whitelist"

// ask sends a four-letter command to a server and returns the reply. If the server rejects the
// command, the error says how to allow it.
func ask(ctx context.Context, e Ensemble, addr, word string) (string, error) {
	text, err := e.Word(ctx, addr, word)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the server did not answer the four-letter command %s in time", word)
	case err == nil && strings.Contains(text, notAllowed):
		return "", notListed(word)
	}
	return text, err
}

// A notListed is the error for a four-letter command that is not in a server's whitelist. Its
// value is the command.
type notListed string

func (w notListed) Error() string {
	return fmt.Sprintf("the four-letter command %s is not allowed; add it to 4lw.commands.whitelist "+
		"on the servers", string(w))
}

// askEach sends a four-letter command to all servers at the same time. texts contains the reply
// of each server, and problems an error message for each server that did not answer. A refused
// connection is not a problem, because then no client is connected to the server either.
func askEach(ctx context.Context, e Ensemble, addrs []string, word string) (texts, problems []string) {
	texts, errs := make([]string, len(addrs)), make([]error, len(addrs))
	var asking sync.WaitGroup
	for i, addr := range addrs {
		asking.Go(func() { texts[i], errs[i] = ask(ctx, e, addr, word) })
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil && !peer.Refused(err) {
			problems = append(problems, err.Error())
		}
	}
	return texts, problems
}

// parsePairs parses lines that consist of a name, the separator and a value, and returns the
// values by name. It ignores all other lines.
func parsePairs(text, separator string) map[string]string {
	values := map[string]string{}
	for l := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), separator); ok {
			values[name] = value
		}
	}
	return values
}

// pathsBySession parses the reply to the four-letter command dump into the paths of each
// session. Both replies contain a line with the session ID in hexadecimal, followed by an
// indented line for each path.
func pathsBySession(text string) map[int64][]string {
	all := map[int64][]string{}
	var session int64
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		path, indented := strings.CutPrefix(l, "\t")
		if indented {
			all[session] = append(all[session], path)
			continue
		}
		id, ok := strings.CutPrefix(strings.TrimSuffix(l, ":"), "0x")
		n, err := strconv.ParseUint(id, 16, 64)
		if !ok || err != nil {
			continue
		}
		session = int64(n)
		all[session] = nil
	}
	return all
}

// ephemerals parses the reply to the four-letter command dump, and returns the paths of the
// ephemeral znodes by session ID. It ignores the number of sessions in the heading, which may be
// slightly wrong because sessions start and end while the server writes the reply.
func ephemerals(dump string) (map[int64][]string, error) {
	_, rest, found := strings.Cut(dump, "Sessions with Ephemerals (")
	count, rest, closed := strings.Cut(rest, ")")
	_, err := strconv.Atoi(count)
	if !found || !closed || err != nil {
		return nil, errors.New("cannot parse the server's reply to the four-letter command dump")
	}
	rest, _, _ = strings.Cut(rest, "\nConnections dump:")
	return pathsBySession(rest), nil
}

// Ephemerals returns the server paths of all ephemeral znodes of the ensemble, by session ID. It
// asks one server after another until one of them answers.
func Ephemerals(ctx context.Context, e Ensemble) (map[int64][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, dumpLimit)
	defer cancel()
	var first error
	for _, host := range e.Hosts() {
		text, err := ask(ctx, e, host, "dump")
		if err == nil {
			var all map[int64][]string
			if all, err = ephemerals(text); err == nil {
				return all, nil
			}
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}
