package zklock

import (
	"testing"
)

const testGUID = "0a1b2c3d-0000-4000-8000-0123456789ab"

func TestParseName(t *testing.T) {
	known := map[string]Name{
		"_c_" + testGUID + "-lock-0000000007":                          {Kind: "Curator mutex", Mode: Exclusive, GUID: "_c_" + testGUID, Number: 7},
		"_c_" + testGUID + "-read-lock-0000000007":                     {Kind: "Curator mutex, shared", Mode: Shared, GUID: "_c_" + testGUID, Number: 7},
		"_c_" + testGUID + "-__WRIT__0000000007":                       {Kind: "Curator write", Mode: Exclusive, GUID: "_c_" + testGUID, Number: 7},
		"_c_" + testGUID + "-__READ__0000000007":                       {Kind: "Curator read", Mode: Shared, GUID: "_c_" + testGUID, Number: 7},
		"_c_" + testGUID + "-latch-0000000007":                         {Kind: "Curator latch", Mode: Exclusive, GUID: "_c_" + testGUID, Number: 7},
		"_c_" + testGUID + "-lease-0000000007":                         {Kind: "Curator semaphore", Mode: Counted, GUID: "_c_" + testGUID, Number: 7},
		"_c_0a1b2c3d0000400080000123456789ab-lock-0000000007":          {Kind: "go-zookeeper lock", Mode: Exclusive, GUID: "_c_0a1b2c3d0000400080000123456789ab", Number: 7},
		"0a1b2c3d000040008000012345678900__lock__0000000007":           {Kind: "kazoo lock", Mode: Exclusive, GUID: "0a1b2c3d000040008000012345678900", Number: 7},
		"0a1b2c3d000040008000012345678900__rlock__0000000007":          {Kind: "kazoo read", Mode: Shared, GUID: "0a1b2c3d000040008000012345678900", Number: 7},
		"0a1b2c3d000040008000001234567890":                             {Kind: "kazoo semaphore", Mode: Counted, GUID: "0a1b2c3d000040008000001234567890", Number: NoNumber},
		"x-72057594037927936-0000000007":                               {Kind: "ZooKeeper recipe", Mode: Exclusive, GUID: "72057594037927936", Number: 7},
		"x--72057594037927936-0000000007":                              {Kind: "ZooKeeper recipe", Mode: Exclusive, GUID: "-72057594037927936", Number: 7},
		"x-01000000deadbeef-0000000007":                                {Kind: "ZooKeeper recipe", Mode: Exclusive, GUID: "01000000deadbeef", Number: 7},
		"write-0000000007":                                             {Kind: "HBase write", Mode: Exclusive, GUID: "", Number: 7},
		"read-0000000007":                                              {Kind: "HBase read", Mode: Shared, GUID: "", Number: 7},
		"zlock#b3fc8a70-2e52-4a0a-a4ba-fd7a4b8f3b0e#0000000007":        {Kind: "Accumulo lock", Mode: Exclusive, GUID: "b3fc8a70-2e52-4a0a-a4ba-fd7a4b8f3b0e", Number: 7},
		"zlock-0000000007":                                             {Kind: "Accumulo lock", Mode: Exclusive, GUID: "", Number: 7},
		"lock-0000000007":                                              {Kind: "lock", Mode: Exclusive, GUID: "", Number: 7},
		"read-abc-lock-0000000007":                                     {Kind: "read lock", Mode: Shared, GUID: "read-abc", Number: 7},
		"write-abc-lock-0000000007":                                    {Kind: "write lock", Mode: Exclusive, GUID: "write-abc", Number: 7},
		"_c_" + testGUID + "-lock--2147483648":                         {Kind: "Curator mutex", Mode: Exclusive, GUID: "_c_" + testGUID, Number: -2147483648},
		"_c_" + testGUID + "-lock--000000005":                          {Kind: "Curator mutex", Mode: Exclusive, GUID: "_c_" + testGUID, Number: -5},
		"_c_" + testGUID + "-__READ__-1000000000":                      {Kind: "Curator read", Mode: Shared, GUID: "_c_" + testGUID, Number: -1000000000},
		"0a1b2c3d000040008000012345678900__lock__-2147483647":          {Kind: "kazoo lock", Mode: Exclusive, GUID: "0a1b2c3d000040008000012345678900", Number: -2147483647},
		"_c_" + testGUID + "-lock-2147483647":                          {Kind: "Curator mutex", Mode: Exclusive, GUID: "_c_" + testGUID, Number: 2147483647},
		"anything-at-all-lock-0000000001":                              {Kind: "lock", Mode: Exclusive, GUID: "anything-at-all", Number: 1},
		"_c_short-lock-0000000001":                                     {Kind: "Curator mutex", Mode: Exclusive, GUID: "_c_short", Number: 1},
		"_c_0a1b2c3d-0000-4000-8000-0123456789ab-read-lock-2147483647": {Kind: "Curator mutex, shared", Mode: Shared, GUID: "_c_" + testGUID, Number: 2147483647},
		"read-0a1b2c3d-0000-4000-8000-0123456789ab-lock-0000000000":    {Kind: "read lock", Mode: Shared, GUID: "read-" + testGUID, Number: 0},
		"_c_0a1b2c3d-0000-4000-8000-0123456789ab-__WRIT__-000000001":   {Kind: "Curator write", Mode: Exclusive, GUID: "_c_" + testGUID, Number: -1},
		"_c_0a1b2c3d-0000-4000-8000-0123456789ab-__WRIT__0000000000":   {Kind: "Curator write", Mode: Exclusive, GUID: "_c_" + testGUID, Number: 0},
		"0a1b2c3d000040008000012345678900__rlock__-000000001":          {Kind: "kazoo read", Mode: Shared, GUID: "0a1b2c3d000040008000012345678900", Number: -1},
	}
	for name, want := range known {
		got, ok := ParseName(name)
		if !ok || got != want {
			t.Errorf("ParseName(%q) = %+v, %v, want %+v", name, got, ok, want)
		}
	}
}

func TestForeignNames(t *testing.T) {
	for _, name := range []string{
		"", "config", "README", "_c_x", "leases", "locks", "lock-", "lock-0", "lock-99999999999", "lock-2147483648",
		"+x", "#config", "0", "0000000001", "-0000000001", "lock--0000000001", "x-notasession-0000000001",
		"temp", "_c_" + testGUID + "-lock-", "__lock__", "lock-00000000001", "锁-0000000001",
	} {
		if n, ok := ParseName(name); ok {
			t.Errorf("ParseName(%q) = %+v, want none", name, n)
		}
	}
}

func TestPrefixesAreReadBack(t *testing.T) {
	for _, f := range Families() {
		for _, m := range []Mode{Exclusive, Shared} {
			name := prefix(f, m, testGUID) + "0000000003"
			n, ok := ParseName(name)
			if !ok || n.Mode != m || n.Number != 3 || !isOwn(name, testGUID) {
				t.Errorf("%q reads back as %+v, %v", name, n, ok)
			}
		}
	}
	if got := prefix(Mutex, Exclusive, testGUID); got != "_c_"+testGUID+"-lock-" {
		t.Errorf("a mutex is named %q", got)
	}
	if isOwn("_c_"+testGUID+"x-lock-0000000001", testGUID) || isOwn("other", testGUID) {
		t.Error("a stranger's znode counts as ours")
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("_c_" + testGUID + "-lock--2147483648")
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := ParseName(name)
		if ok && n.Mode == "" {
			t.Errorf("ParseName(%q) = %+v: a known name without a mode", name, n)
		}
	})
}
