// Package transfer has the commands that copy, move and compare subtrees, between znodes,
// ensembles and files: cp, mv, diff, mirror, export, import and log.
//
// It does not import commands/undo, nor does commands/undo import this package: what these
// commands destroy is saved by the commands.Keeper that the program gives them, and both read
// and write subtrees with internal/zktree.
//
// This package is part of the program zksh and may change at any time.
package transfer

import "github.com/zksh/zksh/commands"

// Commands are those of this package.
func Commands() []*commands.Command {
	return []*commands.Command{cpCommand, mvCommand, diffCommand, mirrorCommand, exportCommand, importCommand, logCommand}
}
