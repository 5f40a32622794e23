// Package keep has the commands that copy, move and compare subtrees, keep them outside of a
// server and bring them back, and keeps what other commands destroy.
package keep

import "github.com/zksh/zksh/commands"

// Commands are those of this room. What is destroyed by hand is kept in the folder undo,
// if there is one.
func Commands(undo string) []*commands.Command {
	return []*commands.Command{undoCommand(&store{undo}), cpCommand, mvCommand, diffCommand, mirrorCommand, exportCommand, importCommand, logCommand}
}
