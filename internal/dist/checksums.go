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
	sumsFile      = "SHA256SUMS"
	signatureFile = sumsFile + ".minisig"
)

// key returns the secret key for signing the distribution, or nil if no key file is set. Without
// a key, the distribution is not signed.
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

// checksums writes the file SHA256SUMS with the checksums of all files in the distribution. It
// also signs SHA256SUMS, unless key is nil, so that one signature protects all files.
func (w builder) checksums(key *minisign.PrivateKey) error {
	entries, err := os.ReadDir(w.outDir) // the entries are sorted by name
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(w.outDir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	if err := w.write(sumsFile, list.Bytes()); err != nil {
		return err
	}
	if key == nil {
		fmt.Fprintln(w.log, "NOTHING IS SIGNED, because MINISIGN_KEY_FILE is not set")
		return nil
	}
	// Use the time of the commit as the signature's timestamp, so that signatures are reproducible.
	trusted := fmt.Sprintf("timestamp:%d\tfile:%s\tversion:%s", w.time.Unix(), sumsFile, w.version.text)
	hashed := minisign.NewReader(bytes.NewReader(list.Bytes()))
	if _, err := io.Copy(io.Discard, hashed); err != nil {
		return err
	}
	return w.write(signatureFile, hashed.SignWithComments(*key, trusted, "signature of zksh "+w.version.text))
}
