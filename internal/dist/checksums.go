package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"aead.dev/minisign"
)

const (
	sums      = "SHA256SUMS"
	signature = sums + ".minisig"
)

// key reads the secret key, if there is one.
func (o options) key() (*minisign.PrivateKey, error) {
	if o.keyFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("MINISIGN_KEY_FILE: %w", err)
	}
	var key minisign.PrivateKey
	if !minisign.IsEncrypted(text) {
		err = key.UnmarshalText(text)
	} else if o.password == "" {
		err = errors.New("the key is encrypted; set MINISIGN_PASSWORD_FILE to the file that contains its password")
	} else {
		key, err = minisign.DecryptKey(o.password, text)
	}
	if err != nil {
		return nil, fmt.Errorf("MINISIGN_KEY_FILE %s: %w", o.keyFile, err)
	}
	return &key, nil
}

// sum writes the checksums of all that is published, and signs them: who has checked
// that signature has checked everything.
func (w workshop) sum(key *minisign.PrivateKey) error {
	entries, err := os.ReadDir(w.made) // in the order of their names
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(w.made, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	if err := w.write(sums, list.Bytes()); err != nil {
		return err
	}
	if key == nil {
		fmt.Fprintln(w.log, "NOTHING IS SIGNED, because MINISIGN_KEY_FILE is not set")
		return nil
	}
	// No time but the commit's: signatures, too, are the same each time.
	trusted := fmt.Sprintf("timestamp:%d\tfile:%s\tversion:%s", w.time.Unix(), sums, w.version.text)
	hashed := minisign.NewReader(bytes.NewReader(list.Bytes()))
	if _, err := io.Copy(io.Discard, hashed); err != nil {
		return err
	}
	return w.write(signature, hashed.SignWithComments(*key, trusted, "signature of zksh "+w.version.text))
}
