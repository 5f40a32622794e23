package sandbox

// Orphan removes the session with the given id from the session table, but keeps its ephemeral
// znodes, as some bugs of ZooKeeper do. It closes the session's connection. It reports whether
// the session existed. Orphan is for tests.
func (s *Server) Orphan(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[id]
	if n == nil {
		return false
	}
	delete(s.sessions, id)
	if c := n.conn; c != nil {
		n.conn = nil // drop must not end the session, which would delete its znodes
		s.drop(c)
	}
	return true
}
