package shell

// Parse parses a line without running it.
func (s *Shell) Parse(line string) error {
	_, _, err := s.read(line)
	return err
}
