package cluster

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// bugsAsOf is the date of the list knownBugs, which contains no later releases or tickets.
const bugsAsOf = "2026-11-26"

// A release is the number of a ZooKeeper release, such as 3.8.4. The zero release is older than
// all others.
type release struct{ major, minor, patch int }

// String returns the release in the form 3.8.4.
func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r.major, r.minor, r.patch) }

// before reports whether r is older than other.
func (r release) before(other release) bool {
	return cmp.Or(cmp.Compare(r.major, other.major), cmp.Compare(r.minor, other.minor),
		cmp.Compare(r.patch, other.patch)) < 0
}

// sameLine reports whether r and other belong to the same release line, such as 3.8.
func (r release) sameLine(other release) bool {
	return r.major == other.major && r.minor == other.minor
}

// parseRelease parses a version in the form 3.8.4. In any other case, such as an unknown version,
// it returns false.
func parseRelease(version string) (release, bool) {
	var numbers [3]int
	parts := strings.Split(version, ".")
	if len(parts) != len(numbers) {
		return release{}, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return release{}, false
		}
		numbers[i] = int(n)
	}
	return release{numbers[0], numbers[1], numbers[2]}, true
}

// A Bug is a known bug of ZooKeeper that affects a certain release.
type Bug struct {
	Tickets     []string `json:"tickets"`
	Effect      string   `json:"effect"`
	BreaksLocks bool     `json:"breaksLocks"` // two clients can hold a lock, or a lock is never released
	FixedIn     []string `json:"fixedIn"`     // later releases that fix the bug, one for each release line
}

// String describes the bug in one line.
func (b Bug) String() string {
	return fmt.Sprintf("%s: %s; fixed in %s", strings.Join(b.Tickets, ", "), b.Effect, strings.Join(b.FixedIn, ", "))
}

// A bugRange is a bug and the range of releases that have it. The range begins with the release
// since. In each release line, it ends before the first release with a fix. A line without a fix is
// affected as a whole if a later line has a fix.
type bugRange struct {
	tickets     []int // numbers of the tickets in the project ZOOKEEPER
	effect      string
	breaksLocks bool
	since       release   // first affected release; zero if all older releases are affected
	fixed       []release // first fixed release of each release line, in ascending order
}

// knownBugs contains the bugs of ZooKeeper that break locks or lose data. A release fixes a bug
// if it is the first one in its release line whose log names the ticket, unless a later commit in
// the same release reverts the fix. (3.5.9 reverts the fix of 3911.)
var knownBugs = []bugRange{
	{[]int{2355}, "an ephemeral znode is never deleted if a follower fails while it reads the request " +
		"to delete it", true,
		release{}, []release{{3, 4, 11}, {3, 5, 4}, {3, 6, 0}}},
	{[]int{3249}, "the server can assign a sequence number twice", true,
		release{}, []release{{3, 6, 0}}},
	{[]int{4925}, "data can be lost after the leader changes", true,
		release{3, 9, 3}, []release{{3, 9, 4}}},
	{[]int{3144}, "servers can disagree on ephemeral znodes after a restart", false,
		release{}, []release{{3, 6, 0}}},
	{[]int{3471}, "ephemeral znodes can remain if a local session became global", false,
		release{3, 5, 0}, []release{{3, 6, 0}}},
	{[]int{2926, 3145}, "servers can disagree on sessions, and watch events can be missed", false,
		release{}, []release{{3, 6, 0}}},
	{[]int{3125, 3127}, "servers can disagree on znodes and miss events of child watches after a restart", false,
		release{}, []release{{3, 5, 5}}},
	{[]int{2886}, "a connection that sends only multis can fail with SessionMoved until it is closed", false,
		release{}, []release{{3, 6, 0}}},
	{[]int{1818, 3104, 3113}, "epochs and owners of ephemeral znodes can be wrong after an election", false,
		release{}, []release{{3, 5, 5}}},
	{[]int{3644}, "data can be lost in an upgrade from 3.4 to 3.5", false,
		release{}, []release{{3, 5, 7}}},
	{[]int{3911}, "data can be lost when a follower synchronizes with the leader (DIFF)", false,
		release{}, []release{{3, 5, 10}, {3, 6, 3}}},
	{[]int{3642}, "data can be lost when a follower synchronizes after an incomplete snapshot", false,
		release{}, []release{{3, 5, 10}, {3, 6, 3}}},
	{[]int{4785}, "transactions can be lost when a follower synchronizes with the leader (DIFF)", false,
		release{3, 6, 0}, []release{{3, 8, 5}, {3, 9, 2}}},
	{[]int{4394, 4409, 4712}, "servers can disagree on the data, and ephemeral znodes can remain", false,
		release{}, []release{{3, 9, 3}}},
	{[]int{4846}, "a server can fail to load its database, because an ACL is missing", false,
		release{}, []release{{3, 8, 5}, {3, 9, 4}}},
}

// affects reports whether the release r has the bug.
func (b bugRange) affects(r release) bool {
	if r.before(b.since) {
		return false
	}
	for _, f := range b.fixed {
		if f.sameLine(r) {
			return r.before(f)
		}
	}
	return r.before(b.fixed[len(b.fixed)-1])
}

// in describes the bug for the release r, which must have the bug. FixedIn contains only releases
// later than r.
func (b bugRange) in(r release) Bug {
	bug := Bug{Effect: b.effect, BreaksLocks: b.breaksLocks}
	for _, number := range b.tickets {
		bug.Tickets = append(bug.Tickets, fmt.Sprintf("ZOOKEEPER-%d", number))
	}
	for _, f := range b.fixed {
		if r.before(f) {
			bug.FixedIn = append(bug.FixedIn, f.String())
		}
	}
	return bug
}

// bugsIn returns the known bugs of a ZooKeeper version, such as 3.8.4. Bugs that break locks come
// first. If the version is unknown, bugsIn returns nil.
func bugsIn(version string) (bugs []Bug) {
	r, known := parseRelease(version)
	for _, b := range knownBugs {
		if known && b.affects(r) {
			bugs = append(bugs, b.in(r))
		}
	}
	return bugs
}
