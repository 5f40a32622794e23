// Package transfer implements the commands that copy, move and compare subtrees within an
// ensemble, between ensembles, and between an ensemble and a file: cp, mv, diff, mirror, export,
// import and log.
//
// The function Commands lists these commands. Each command has a file of its own; endpoint.go
// opens the sessions and files that the arguments of the commands name.
//
// This package and commands/undo do not import each other. The commands record what they
// change with the commands.Recorder in their Env, and both packages read and write subtrees with
// internal/zktree.
//
// This package is part of the program zksh and may change at any time.
package transfer

import "github.com/zksh/zksh/commands"

// Commands returns the commands of this package.
func Commands() []*commands.Command {
	return []*commands.Command{cpCommand, mvCommand, diffCommand, mirrorCommand, exportCommand, importCommand, logCommand}
}
