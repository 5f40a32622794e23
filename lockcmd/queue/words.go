package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// notAllowed is what a server answers to a word that its configuration keeps to itself.
const notAllowed = "is not executed because it is not in the whitelist"

// ask sends a server a four-letter word. A refusal is an error that says how to
// have the answer.
func ask(ctx context.Context, e Ensemble, addr, word string) (string, error) {
	text, err := e.Word(ctx, addr, word)
	switch {
	case ctx.Err() != nil:
		return "", errors.New("the server did not answer in time")
	case err == nil && strings.Contains(text, notAllowed):
		return "", notListed(word)
	}
	return text, err
}

// notListed is the error of a word that is not in a server's whitelist.
type notListed string

func (w notListed) Error() string {
	return fmt.Sprintf("the four-letter command %s is not allowed; add it to 4lw.commands.whitelist on the servers", string(w))
}

// blocks reads sections of a session, in hexadecimal, and below it a line for each
// path, indented: what dump tells of ephemerals, and wchc of watches.
func blocks(text string) map[int64][]string {
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

// ephemerals reads what dump tells of them: the paths by session. The number in their
// head may differ a little, as sessions come and go while the server writes.
func ephemerals(dump string) (map[int64][]string, error) {
	_, rest, found := strings.Cut(dump, "Sessions with Ephemerals (")
	count, rest, closed := strings.Cut(rest, ")")
	_, err := strconv.Atoi(count)
	if !found || !closed || err != nil {
		return nil, errors.New("cannot parse the server's reply to the four-letter command dump")
	}
	rest, _, _ = strings.Cut(rest, "\nConnections dump:")
	return blocks(rest), nil
}

// dump asks one server after another for all ephemeral znodes of the ensemble.
func dump(ctx context.Context, e Ensemble) (map[int64][]string, error) {
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

// watches are the data watches of all sessions.
type watches struct {
	paths map[int64]map[string]bool // the servers' paths by session
	why   string                    // why they are not all known; for a person
}

// findWatches asks all servers for them. Child watches they do not tell.
func findWatches(ctx context.Context, e Ensemble) *watches {
	ctx, cancel := context.WithTimeout(ctx, dumpLimit)
	defer cancel()
	w := &watches{paths: map[int64]map[string]bool{}}
	addrs, _, all := findMembers(ctx, e)
	texts, why := askEach(ctx, e, addrs, "wchc")
	switch {
	case len(why) > 0:
		w.why = why[0]
	case !all:
		w.why = membersNotTold
	}
	for _, text := range texts {
		for session, list := range blocks(text) {
			if w.paths[session] == nil {
				w.paths[session] = map[string]bool{}
			}
			for _, p := range list {
				w.paths[session][p] = true
			}
		}
	}
	return w
}
