// Package playground puts the sandbox, an in-memory ZooKeeper, at a shell's
// service: the first shell runs it, further shells of the same user join it.
package playground

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/userfile"
)

// Notice says what the sandbox is, wherever one is shown.
const Notice = "The sandbox is an in-memory ZooKeeper server for experiments, demos and tests. " +
	"Never use it in production: its data is lost when the shell that runs it exits."

// Place is a sandbox this process runs or has joined.
type Place struct {
	Addr string // host:port, on loopback

	as     sandbox.Version // what it answers as
	server *sandbox.Server // nil when joined
	meet   *os.File        // the meeting file; its lock is the running shell's
	ended  chan string
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// meetingPatience is how long a joining shell waits for the running one to say
// where it listens.
const meetingPatience = 10 * time.Second

const meetingPause = 20 * time.Millisecond

// Open joins the sandbox of another shell of this user, or runs one on a free
// port. dir is where shells meet; without one every shell has its own. With a
// loopback address to listen on it always runs one there, which is where shells
// that open one later go, unless there was one already. What the sandbox answers as
// is for who runs it to say: to join one that answers otherwise is an error. With brief
// nobody can join a sandbox that is run here: it ends with one command, and would be gone
// in the middle of somebody else's work.
func Open(dir, listen string, as sandbox.Version, brief bool) (*Place, error) {
	addr, own := cmp.Or(listen, "127.0.0.1:0"), cmp.Or(as, sandbox.DefaultVersion)
	if dir == "" {
		return run(nil, addr, own)
	}
	f, err := userfile.Open(filepath.Join(dir, "zksh", "sandbox"), 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: cannot open the file through which shells find a running sandbox: %w", err)
	}
	for deadline := time.Now().Add(meetingPatience); ; time.Sleep(meetingPause) {
		mine, err := userfile.Lock(f, false)
		if err == nil && mine && !brief {
			return run(f, addr, own)
		}
		if err != nil || mine || listen != "" {
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, fmt.Errorf("sandbox: %w", err)
			}
			return run(nil, addr, own)
		}
		switch at, its := meetingPoint(f); {
		case at != "" && as != "" && as != its:
			return nil, errors.Join(fmt.Errorf("sandbox: another terminal is already running a sandbox that acts as %s; to join it, omit --as", its), f.Close())
		case at != "":
			return join(f, at, its), nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(errors.New("sandbox: another shell is starting a sandbox, which did not become ready in time; try again"), f.Close())
		}
	}
}

// run starts a server and, if shells can meet, tells where it listens.
func run(meet *os.File, addr string, as sandbox.Version) (*Place, error) {
	p := &Place{as: as, server: sandbox.New(sandbox.Options{As: as}), meet: meet, stop: func() {}}
	at, err := p.server.Listen(addr)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Addr = at.String()
	if meet == nil {
		return p, nil
	}
	err = meet.Truncate(0)
	if err == nil {
		_, err = meet.WriteAt([]byte(p.Addr+" "+string(as)+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// meetingPoint is where the running shell's sandbox listens, and what it answers as.
// It is empty while
// that shell is still starting, and when the file is left over: the lock may be
// somebody's who only looks.
func meetingPoint(meet *os.File) (addr string, as sandbox.Version) {
	b := make([]byte, 128)
	n, err := meet.ReadAt(b, 0)
	line, whole := strings.CutSuffix(string(b[:n]), "\n")
	if err != nil && err != io.EOF || !whole {
		return "", ""
	}
	addr, its, _ := strings.Cut(line, " ")
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil || c.Close() != nil {
		return "", ""
	}
	return addr, cmp.Or(sandbox.Version(its), sandbox.DefaultVersion)
}

// Running is where a sandbox listens that a shell of this user runs, or empty. It starts
// none, and leaves the file where shells meet as it is.
func Running(dir string) string {
	name := filepath.Join(dir, "zksh", "sandbox")
	if info, err := os.Lstat(name); dir == "" || err != nil || !info.Mode().IsRegular() { // userfile.Open would make it
		return ""
	}
	f, err := userfile.Open(name, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	addr, _ := meetingPoint(f)
	return addr
}

func join(meet *os.File, addr string, as sandbox.Version) *Place {
	ctx, stop := context.WithCancel(context.Background())
	p := &Place{Addr: addr, as: as, meet: meet, ended: make(chan string, 1), stop: stop}
	p.done.Go(func() { p.watch(ctx) })
	return p
}

// watchEvery is how often a joined shell looks whether the running one is there.
const watchEvery = 200 * time.Millisecond

// watch waits until the lock of the running shell is free. It is never kept: a
// new shell must be able to run the next sandbox.
func (p *Place) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if free, err := userfile.Lock(p.meet, true); err != nil || free {
			_ = userfile.Unlock(p.meet) // if it fails, Close gives the lock back
			p.ended <- "the sandbox has ended, because the shell that ran it has exited; quit, and start another sandbox"
			return
		}
	}
}

// Joined reports whether another shell runs the sandbox.
func (p *Place) Joined() bool { return p.server == nil }

// Unusual says what the sandbox answers as, to stand behind its name; it is empty
// where that is the default.
func (p *Place) Unusual() string {
	if p.as == sandbox.DefaultVersion {
		return ""
	}
	if slices.Contains(sandbox.Products(), p.as) {
		return " that acts as " + string(p.as)
	}
	return " that acts as ZooKeeper " + string(p.as)
}

// Ended has a remark, once, when the shell that runs a joined sandbox has left.
func (p *Place) Ended() <-chan string { return p.ended }

// Close ends the sandbox, or leaves a joined one.
func (p *Place) Close() error {
	p.stop()
	p.done.Wait()
	var err error
	if p.server != nil {
		err = p.server.Close()
	}
	if p.meet != nil {
		err = errors.Join(err, p.meet.Close())
	}
	return err
}

// Pause cuts everybody off from the sandbox, or lets them back. It is an error in a
// joined one.
func (p *Place) Pause(on bool) error {
	switch {
	case p.Joined():
		return errJoined
	case on:
		p.server.Pause()
	default:
		p.server.Resume()
	}
	return nil
}

var errJoined = errors.New("this sandbox belongs to another shell; only that shell can pause it")
