// Package transfer implements the commands that copy, move and compare subtrees between znodes,
// ensembles and files: cp, mv, diff, mirror, export, import and log.
//
// Commands lists them. Each command has a file of its own; endpoint.go opens the sessions and files
// that their arguments name.
//
// This package and commands/undo do not import each other: what these commands overwrite or delete
// is saved by the commands.Saver in their Env, and both packages read and write subtrees with
// internal/zktree.
//
// This package is part of the program zksh and may change at any time.
package transfer

import "github.com/zksh/zksh/commands"

// Commands returns the commands of this package.
func Commands() []*commands.Command {
	return []*commands.Command{cpCommand, mvCommand, diffCommand, mirrorCommand, exportCommand, importCommand, logCommand}
}
