package commands

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/cast"
)

// FlagRecord defines the flag --record of a command whose Run calls Record.
func FlagRecord(fs *pflag.FlagSet) *string {
	name := fs.String("record", "", "record the screen in this `file`, for asciinema")
	FlagFile(fs, "record")
	return name
}

// Record calls run and records the screen meanwhile, as StartRecording does.
func Record(env *Env, name, title string, run func() error) error {
	end, err := StartRecording(env, name, title)
	if err != nil {
		return err
	}
	err = run()
	return errors.Join(err, end())
}

// StartRecording records the screen in the file with the given name until end is called. If the
// name is empty, it records nothing. The recording contains what zksh prints, but not what the user
// types or what other programs print. title is the title of the recording.
func StartRecording(env *Env, name, title string) (end func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	r, err := cast.Create(name, title, env.Screen.Region(Answers).Size)
	if err != nil {
		return nil, err
	}
	endTee := env.Screen.Tee(r)
	return func() error {
		endTee()
		return r.Close()
	}, nil
}
