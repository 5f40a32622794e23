// Package playground provides shells with a sandbox: a ZooKeeper server that runs in memory,
// inside a zksh process. The first shell runs the sandbox, and other shells of the same user
// join it. They find it through the meeting file. The shell that runs the sandbox locks this
// file and writes the sandbox's address into it.
//
// Begin reading with Open, which returns a Place.
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
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/userfile"
)

// Notice is the explanation and warning that zksh prints when it starts or joins a sandbox.
const Notice = "The sandbox is an in-memory ZooKeeper server for experiments, demos and tests. " +
	"Never use it in production: its data is lost when the shell that runs it exits."

// A Place is a sandbox that this process runs or has joined.
type Place struct {
	Addr string // host:port, on loopback

	version     sandbox.Version // the ZooKeeper version that the server claims to be
	server      *sandbox.Server // nil if another shell runs the sandbox
	meetingFile *os.File        // file that the shell running the sandbox locks, or nil if other shells cannot join
	ended       chan string
	stop        context.CancelFunc
	done        sync.WaitGroup
}

// meetingTimeout is how long a joining shell waits for the other shell to write the address of its
// sandbox into the meeting file.
const meetingTimeout = 10 * time.Second

const meetingPause = 20 * time.Millisecond

// Open joins the sandbox of another shell of this user or, if there is none, runs a new one on a
// free port. The meeting file is below the directory dir. If dir is empty, shells do not share
// sandboxes.
//
// If listen is not empty, Open always runs a new sandbox on this address, which must be a
// loopback address. Later shells join it, unless another sandbox was already running.
//
// requested is the ZooKeeper version that the sandbox must claim to be. If it is empty, a new
// sandbox has the default version, and Open joins a sandbox of any version. Otherwise, Open
// returns an error if the sandbox to join has a different version.
//
// If brief is true, the shell ends after a single command. Other shells then cannot join a
// sandbox that Open runs, because it might end in the middle of their work.
func Open(dir, listen string, requested sandbox.Version, brief bool) (*Place, error) {
	addr, version := cmp.Or(listen, freePort), cmp.Or(requested, sandbox.DefaultVersion)
	if dir == "" {
		return run(nil, addr, version)
	}
	f, err := userfile.Open(filepath.Join(dir, "zksh", "sandbox"), 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: cannot open the file through which shells find a running sandbox: %w", err)
	}
	for deadline := time.Now().Add(meetingTimeout); ; time.Sleep(meetingPause) {
		locked, err := userfile.Lock(f, false)
		if err == nil && locked && !brief {
			return run(f, addr, version)
		}
		if err != nil || locked || listen != "" {
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, fmt.Errorf("sandbox: %w", err)
			}
			return run(nil, addr, version)
		}
		switch at, running := readMeetingFile(f); {
		case at != "" && requested != "" && requested != running:
			return nil, errors.Join(fmt.Errorf("sandbox: another terminal is already running a sandbox that acts as %s; to join it, omit --as", running), f.Close())
		case at != "":
			return join(f, at, running), nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(errors.New("sandbox: another shell is starting a sandbox, which did not become ready in time; try again"), f.Close())
		}
	}
}

// Private runs the sandbox server, which has the given version, on a free port, or on the address
// listen if that is not empty. Other shells do not join it.
func Private(server *sandbox.Server, listen string, version sandbox.Version) (*Place, error) {
	return serve(server, nil, cmp.Or(listen, freePort), cmp.Or(version, sandbox.DefaultVersion))
}

// freePort is a loopback address with a port that the system chooses.
const freePort = "127.0.0.1:0"

// run starts a sandbox on addr. If meetingFile is not nil, run writes the address of the sandbox
// to it.
func run(meetingFile *os.File, addr string, version sandbox.Version) (*Place, error) {
	return serve(sandbox.New(sandbox.Options{As: version}), meetingFile, addr, version)
}

// serve is like run, for a server that exists.
func serve(server *sandbox.Server, meetingFile *os.File, addr string, version sandbox.Version) (*Place, error) {
	p := &Place{version: version, server: server, meetingFile: meetingFile, stop: func() {}}
	at, err := p.server.Listen(addr)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Addr = at.String()
	if meetingFile == nil {
		return p, nil
	}
	err = meetingFile.Truncate(0)
	if err == nil {
		_, err = meetingFile.WriteAt([]byte(p.Addr+" "+string(version)+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// readMeetingFile returns the address and the version of the running sandbox. addr is empty
// while the other shell is still starting the sandbox, or if the file is left over from an
// earlier sandbox. A locked file alone does not prove that a sandbox is running, because another
// shell may hold the lock for a moment to test it.
func readMeetingFile(meetingFile *os.File) (addr string, as sandbox.Version) {
	b := make([]byte, 128)
	n, err := meetingFile.ReadAt(b, 0)
	line, complete := strings.CutSuffix(string(b[:n]), "\n")
	if err != nil && err != io.EOF || !complete {
		return "", ""
	}
	addr, version, _ := strings.Cut(line, " ")
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil || c.Close() != nil {
		return "", ""
	}
	return addr, cmp.Or(sandbox.Version(version), sandbox.DefaultVersion)
}

// Running returns the address of the sandbox that a shell of this user runs, or an empty string if
// there is none. It does not start a sandbox or change the meeting file.
func Running(dir string) string {
	name := filepath.Join(dir, "zksh", "sandbox")
	if info, err := os.Lstat(name); dir == "" || err != nil || !info.Mode().IsRegular() { // userfile.Open would create a missing file
		return ""
	}
	f, err := userfile.Open(name, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	addr, _ := readMeetingFile(f)
	return addr
}

func join(meetingFile *os.File, addr string, version sandbox.Version) *Place {
	ctx, stop := context.WithCancel(context.Background())
	p := &Place{Addr: addr, version: version, meetingFile: meetingFile, ended: make(chan string, 1), stop: stop}
	p.done.Go(func() { p.watch(ctx) })
	return p
}

// watchPause is the interval at which a joined shell checks whether the shell that runs the
// sandbox still exists.
const watchPause = 200 * time.Millisecond

// watch waits until the shell that runs the sandbox releases its lock on the meeting file. To test
// this, watch tries to acquire the lock. If it succeeds, it releases the lock at once, so that a
// new shell can run the next sandbox.
func (p *Place) watch(ctx context.Context) {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if free, err := userfile.Lock(p.meetingFile, true); err != nil || free {
			_ = userfile.Unlock(p.meetingFile) // if this fails, Close releases the lock
			p.ended <- "the sandbox has ended, because the shell that ran it has exited; quit, and start another sandbox"
			return
		}
	}
}

// Joined reports whether another shell runs the sandbox.
func (p *Place) Joined() bool { return p.server == nil }

// Joinable reports whether other shells can find and join the sandbox. They cannot if the sandbox
// was opened without a directory, or if another sandbox was already running.
func (p *Place) Joinable() bool { return p.meetingFile != nil }

// Version returns the version of the sandbox.
func (p *Place) Version() sandbox.Version { return p.version }

// VersionSuffix returns text that names the version of the sandbox, to append to "the sandbox".
// It returns an empty string for the default version.
func (p *Place) VersionSuffix() string {
	if p.version == sandbox.DefaultVersion {
		return ""
	}
	return " that acts as ZooKeeper " + string(p.version)
}

// Ended returns a channel that receives a message when the shell that runs the joined sandbox
// has exited.
func (p *Place) Ended() <-chan string { return p.ended }

// Close stops the sandbox if this process runs it. A sandbox of another shell continues to run.
func (p *Place) Close() error {
	p.stop()
	p.done.Wait()
	var err error
	if p.server != nil {
		err = p.server.Close()
	}
	if p.meetingFile != nil {
		err = errors.Join(err, p.meetingFile.Close())
	}
	return err
}

// Pause disconnects all clients from the sandbox and rejects new ones if on is true. Otherwise, it
// makes the sandbox accept clients again. It returns an error if another shell runs the sandbox.
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
