// Package keep has the commands that copy, move and compare subtrees, keep them outside of a
// server and bring them back, and keeps what other commands destroy.
//
// This package is part of the program zksh and may change at any time.
package keep

import "github.com/zksh/zksh/commands"

// Commands are those of this package.
func Commands(log UndoLog) []*commands.Command {
	return []*commands.Command{undoCommand(log), cpCommand, mvCommand, diffCommand, mirrorCommand, exportCommand, importCommand, logCommand}
}
