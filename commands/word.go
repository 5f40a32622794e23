package commands

// Word is one word of a command line. Text is what it says; Quoted says it
// was written in quotes, so it is always data, never a flag.
type Word struct {
	Text   string
	Quoted bool
}
