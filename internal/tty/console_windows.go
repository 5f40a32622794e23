package tty

import (
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"
)

// TakeEscapes makes a Windows console interpret escape sequences, which it does not do by
// default.
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

// An inputRecord is the INPUT_RECORD of Windows, with the fields of a key event.
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

// startsLine reports whether an event of a Windows console may begin a typed line. A press of any
// key may begin a line, except for Shift, Ctrl, Alt, a lock key or a Windows key. An event of the
// Alt key may begin a line only if it enters a character, which the user composed while holding
// Alt.
func (r *inputRecord) startsLine() bool {
	modifiers := []uint16{0x10, 0x11, 0x12, 0x14, 0x5b, 0x5c, 0x90, 0x91}
	return r.kind == keyEvent && (r.char != 0 && r.key == 0x12 || r.down != 0 && !slices.Contains(modifiers, r.key))
}

// AwaitKey waits until the user presses a key at a Windows console, and does not consume the key.
// The caller starts its read after that, because zksh must not print anything during a read: the
// console remembers the position at which the read began.
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
		case r.startsLine():
			return nil
		default: // discard other events, such as the release of the Enter key after the previous line
			if err := ask(readConsoleInputW); err != nil {
				return err
			}
		}
	}
}
