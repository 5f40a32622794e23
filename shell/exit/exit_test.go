package exit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("any"), 1},
		{&zkconn.Error{Code: zkconn.NoNode}, 1},
		{&commands.StatusError{Status: commands.StatusFailed}, 1},
		{&commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost}}, 74},
		{&commands.FinalError{Err: &commands.StatusError{Status: commands.StatusNotLocked}}, 75},
		{&commands.UsageError{Problem: "x"}, 2},
		{&zkconn.NoServerError{}, 69},
		{&zkconn.LostError{Cause: errors.New("cut")}, 69},
		{&zkconn.LostError{Cause: syscall.EPIPE}, 69},
		{zkconn.ErrNotConnected, 69},
		{&zkconn.Error{Code: zkconn.SessionExpired}, 69},
		{UnknownCommand{"x", ""}, 127},
		{ErrInterrupted, 130},
		{&zkconn.AbandonedError{Cause: ErrInterrupted}, 130},
		{&zktree.PartialError{Cause: ErrInterrupted}, 130},
		{SignalCause(os.Interrupt), 130},
		{SignalCause(syscall.SIGQUIT), 131},
		{&zkconn.AbandonedError{Cause: SignalCause(syscall.SIGQUIT)}, 131},
		{SignalCause(syscall.SIGTERM), 143},
		{SignalCause(syscall.SIGHUP), 143},
		{&commands.StatusError{Status: commands.StatusCannotRun}, 126},
		{AsWriteError(fmt.Errorf("write: %w", syscall.EPIPE)), 141},
		{&zkconn.LostError{Cause: syscall.EPIPE}, 69},
		{&zkconn.LostError{Cause: syscall.ECONNRESET}, 69},
		{ErrTerminated, 143},
		{context.Canceled, 143},
	} {
		if got := Status(c.err); got != c.want {
			t.Errorf("Status(%v) = %d, want %d", c.err, got, c.want)
		}
	}
	listed := map[int]bool{}
	for _, s := range commands.Statuses {
		listed[s.Status] = true
	}
	for _, s := range []int{0, 1, 2, 69, 74, 75, 126, 127, 130, 131, 141, 143} {
		if !listed[s] {
			t.Errorf("status %d is not listed", s)
		}
	}
}
