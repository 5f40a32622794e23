package zktest

// tester is a testing.TB or a rapid.T.
type tester interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
}

// Must stops a test if err is not nil.
func Must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check makes a test fail if err is not nil. The test continues. Unlike Must, Check can also be
// called in goroutines that the test starts.
func Check(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
