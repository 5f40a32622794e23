package dump_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// readLog reads all transactions of a log.
func readLog(t testing.TB, name string) (all []*dump.Txn, err error) {
	t.Helper()
	l, err := dump.OpenLog(t.Context(), name)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for txn, err := range l.Txns() {
		if err != nil {
			return all, err
		}
		all = append(all, txn)
	}
	return all, nil
}

// describe formats a transaction in a few words.
func describe(t *dump.Txn) string {
	what := fmt.Sprintf("%d:%d %s", t.Type, t.Part, t.Path)
	switch {
	case t.Kind != dump.Persistent:
		what += fmt.Sprint(" ", t.Kind, t.TTL)
	case t.Type == dump.TxnError:
		what += fmt.Sprint(t.Err)
	case t.Data != nil:
		what += " " + string(t.Data)
	}
	return strings.TrimSpace(what + " " + strings.Join(t.Gone, ","))
}

// The log of a real server contains every change, with its session and time.
func TestLog(t *testing.T) {
	server := zktest.Start(t)
	s := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 20 * time.Second})
	var did []error
	do := func(_ any, err error) { did = append(did, err) }
	create := func(path, data string, mode zkconn.CreateMode) {
		do(zkconn.Do(t.Context(), s, zkconn.Create(path, []byte(data), zkconn.OpenACL(), mode)))
	}
	before := time.Now().Add(-time.Minute)
	create("/a", "x", zkconn.CreateMode{})
	create("/a/e", "", zkconn.CreateMode{Ephemeral: true})
	create("/a/c", "", zkconn.CreateMode{Container: true})
	create("/a/t", "", zkconn.CreateMode{TTL: time.Hour})
	do(zkconn.Do(t.Context(), s, zkconn.SetData("/a", []byte("配置"), -1)))
	do(zkconn.Do(t.Context(), s, zkconn.SetACL("/a", zk.WorldACL(zk.PermAll), -1)))
	create("/a/gone", "", zkconn.CreateMode{})
	do(nil, zkconn.Exec(t.Context(), s, zkconn.Delete("/a/gone", -1)))
	tx := s.Begin()
	done := make(chan error, 2)
	go func() {
		err := zkconn.Exec(tx.Context(t.Context()), s, zkconn.Create("/m", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
		done <- err
	}()
	zktest.Eventually(t, "a part joins", func() bool { return tx.Len() == 1 })
	go func() {
		err := zkconn.Exec(tx.Context(t.Context()), s, zkconn.SetData("/a", []byte("m"), -1))
		done <- err
	}()
	zktest.Eventually(t, "a part joins", func() bool { return tx.Len() == 2 })
	_, err := tx.Commit(t.Context())
	did = append(did, err, <-done, <-done)
	other := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 20 * time.Second})
	do(zkconn.Do(t.Context(), other, zkconn.Create("/mine", nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true})))
	do(nil, other.Close(t.Context()))
	zktest.Must(t, errors.Join(did...))
	// Close may return before a busy server has closed the session.
	zktest.Eventually(t, "the session has ended", func() bool {
		err := zkconn.Exec(t.Context(), s, zkconn.Exists("/mine"))
		return errors.Is(err, zkconn.NoNode)
	})
	id := s.Info().ID
	server.Stop()
	files, err := filepath.Glob(filepath.Join(server.Logs(), "log.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	all, err := readLog(t, files[0])
	zktest.Must(t, err)
	var got []string
	for _, txn := range all {
		if got = append(got, describe(txn)); txn.Time.Before(before) || txn.Time.After(time.Now().Add(time.Minute)) || txn.Zxid == 0 || txn.Session == 0 {
			t.Errorf("%+v", txn)
		}
		if mine := txn.Session == id; mine != (len(got) < 12) {
			t.Errorf("%s: by %#x, and ours is %#x", got[len(got)-1], txn.Session, id)
		}
	}
	want := []string{"-10:0", "1:0 /a x", "1:0 /a/e ephemeral 0s", "19:0 /a/c container 0s", "21:0 /a/t ttl 1h0m0s", "5:0 /a 配置", "7:0 /a",
		"1:0 /a/gone", "2:0 /a/gone", "1:1 /m", "5:2 /a m", "-10:0", "1:0 /mine ephemeral 0s", "-11:0  /mine"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	damageLog(t, files[0], all)
}

// damageLog truncates and changes a log at every byte. Txns yields only transactions before it.
func damageLog(t *testing.T, name string, all []*dump.Txn) {
	t.Helper()
	whole, err := os.ReadFile(name)
	zktest.Must(t, err)
	whole = append(bytes.TrimRight(whole, "\x00"), 0, 0, 0)
	file := filepath.Join(t.TempDir(), "log.1")
	try := func(b []byte) ([]*dump.Txn, error) {
		zktest.Must(t, os.WriteFile(file, b, 0o600))
		return readLog(t, file)
	}
	torn, changed := 0, 0
	for i := 16; i < len(whole)-3; i++ {
		got, err := try(whole[:i])
		if text := new(dump.TornError); errors.As(err, &text) {
			torn++
		} else if err != nil {
			t.Fatalf("cut at %d: %v", i, err)
		}
		if !slices.EqualFunc(got, all[:len(got)], func(a, b *dump.Txn) bool { return describe(a) == describe(b) }) {
			t.Fatalf("cut at %d: %d transactions of others", i, len(got))
		}
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		if got, err = try(bad); err == nil || len(got) >= len(all) {
			t.Fatalf("byte %d changed: %d transactions, %v", i, len(got), err)
		}
		changed++
	}
	// A flipped bit in the length of an inner record is damage, and not a TornError.
	second := 16 + 12 + int(binary.BigEndian.Uint32(whole[24:])) + 1
	for bit := range 25 {
		bad := bytes.Clone(whole)
		bad[second+8+3-bit/8] ^= 1 << (bit % 8)
		if _, err := try(bad); err == nil || errors.As(err, new(*dump.TornError)) || !strings.Contains(err.Error(), "intact records follow it") {
			t.Errorf("bit %d of a length: %v", bit, err)
		}
	}
	if torn < changed/2 {
		t.Errorf("of %d ends only %d are in the middle of a record", changed, torn)
	}
}
