//go:build !unix

package playground

import "os"

// tryLock always succeeds: without file locks every shell runs its own sandbox.
func tryLock(*os.File) (mine bool, err error) { return true, nil }

func sharable(*os.File) (bool, error) { return false, nil }
