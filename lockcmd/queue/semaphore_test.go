package queue

import (
	"fmt"
	"strings"
	"testing"
)

// leaseNote is the note of a zksh client that assumes this number of leases.
func leaseNote(n int) string { return fmt.Sprintf(`{"host":"h","pid":1,"leases":%d}`, n) }

// zksh records the number of leases; Curator does not.
func TestNumberOfLeases(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/l", "/l/leases", "/l/locks", "/l/leases/"+uuid+"-lease-0000000001")
	q := f.read(t)
	if got := strings.Join(q.Remarks(), "; "); q.MaxLeases != 0 || got != "the number of the semaphore's leases is unknown, because Curator does not record it" {
		t.Errorf("%d leases: %s", q.MaxLeases, got)
	}

	f.make(2, leaseNote(2), "/l/locks/"+uuid+"-lock-0000000007") // a waiter says it
	if q = f.read(t); q.MaxLeases != 2 || q.Contenders[1].Leases != 2 || len(q.OtherLeases(3)) != 0 {
		t.Errorf("%d leases, %+v", q.MaxLeases, q.Contenders[1])
	}
	if got := strings.Join(q.Remarks(), "; "); got != "the semaphore has 2 leases" {
		t.Error(got)
	}

	// This client still has the mutex, but one of the two leases is for it.
	f.make(2, leaseNote(2), "/l/leases/"+uuid+"-lease-0000000002")
	if got := brief(f.read(t)); got != "semaphore holds 1, semaphore holds 2" {
		t.Error(got)
	}
	f.make(3, leaseNote(2), "/l/leases/"+uuid+"-lease-0000000003", "/l/locks/"+uuid+"-lock-0000000008")
	f.make(3, leaseNote(2), "/l/leases/"+uuid+"-lease-0000000003")
	delete(f.znodes, "/l/locks/"+uuid+"-lock-0000000007")
	if got := brief(f.read(t)); got != "semaphore holds 1, semaphore holds 2, semaphore waits 3" {
		t.Error(got)
	}

	f.make(4, "__REVOKE__ {\"holder\":"+leaseNote(5)+"}", "/l/leases/"+uuid+"-lease-0000000000") // asked to release its lease
	q = f.read(t)
	const want = "clients of the semaphore assume different numbers of leases, 2 and 5: up to 5 clients can hold one at the same time"
	if got := strings.Join(q.Warnings, "; "); q.MaxLeases != 2 || got != want {
		t.Errorf("%d leases, %s", q.MaxLeases, got)
	}
	if others := q.OtherLeases(2); len(others) != 1 || others[0].Leases != 5 || others[0].Place != 1 {
		t.Errorf("others: %+v", others)
	}
}

// The server deletes the container of the waiters while nobody waits.
func TestLeasesWithoutWaiters(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/l", "/l/leases", "/l/leases/"+uuid+"-lease-0000000001")
	if q := f.read(t); brief(q) != "semaphore holds 1" || len(q.Ignored) > 0 {
		t.Errorf("%s, ignored %q", brief(q), q.Ignored)
	}
	f.add("/other", "/other/leases", "/other/leases/config")
	q, err := Read(t.Context(), f, "/other")
	if err != nil || !q.Free() || strings.Join(q.Ignored, " ") != "leases" {
		t.Errorf("%+v, %v", q, err)
	}
}

// Whatever client created them, locks and semaphores on one path ignore each other.
func TestSemaphoreBesideLock(t *testing.T) {
	for _, data := range []string{"", leaseNote(2)} {
		f := newFakeEnsemble()
		f.add("/l", "/l/leases", "/l/locks")
		f.make(1, data, "/l/"+uuid+"-lock-0000000001")
		f.make(2, data, "/l/leases/"+uuid+"-lease-0000000001")
		q := f.read(t)
		const want = "Curator mutexes and Curator semaphores do not exclude each other: both _c_…-lock-… and leases/_c_…-lease-… can hold the lock at the same time"
		if brief(q) != "lock holds 1, semaphore holds 1" || strings.Join(q.Warnings, "; ") != want {
			t.Errorf("%s: %q", brief(q), q.Warnings)
		}
	}
}
