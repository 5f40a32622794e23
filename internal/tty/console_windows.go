package tty

import (
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"
)

// TakeEscapes has a console take escape sequences, as other terminals do by themselves.
func TakeEscapes(f *os.File) error {
	console := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return err
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
}

var (
	kernel32          = windows.NewLazySystemDLL("kernel32.dll")
	peekConsoleInput  = kernel32.NewProc("PeekConsoleInputW")
	readConsoleInputW = kernel32.NewProc("ReadConsoleInputW")
)

// inputRecord is Windows' INPUT_RECORD, as far as keys go.
type inputRecord struct {
	kind uint16
	_    uint16
	down int32
	_    uint16
	key  uint16
	_    uint16
	char uint16
	_    uint32
}

const keyEvent = 1

// begins reports whether a line may begin with this: the press of a key that is more than
// Shift, Ctrl, Alt, a lock or Windows' own, or a character composed while Alt was held.
func (r *inputRecord) begins() bool {
	modifiers := []uint16{0x10, 0x11, 0x12, 0x14, 0x5b, 0x5c, 0x90, 0x91}
	return r.kind == keyEvent && (r.char != 0 && r.key == 0x12 || r.down != 0 && !slices.Contains(modifiers, r.key))
}

// AwaitKey waits until a key has been pressed at a console, and leaves it to be read. A
// console remembers where its line began, so nothing is to be shown while one is read.
func AwaitKey(f *os.File) error {
	console := windows.Handle(f.Fd())
	for {
		if _, err := windows.WaitForSingleObject(console, windows.INFINITE); err != nil {
			return err
		}
		var r inputRecord
		var n uint32
		ask := func(how *windows.LazyProc) error {
			if ok, _, err := how.Call(uintptr(console), uintptr(unsafe.Pointer(&r)), 1, uintptr(unsafe.Pointer(&n))); ok == 0 {
				return err
			}
			return nil
		}
		if err := ask(peekConsoleInput); err != nil {
			return err
		}
		switch {
		case n == 0:
		case r.begins():
			return nil
		default: // such as the end of the Enter before: no line needs it
			if err := ask(readConsoleInputW); err != nil {
				return err
			}
		}
	}
}
