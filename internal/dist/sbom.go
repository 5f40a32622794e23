package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

// A bom is a bill of materials in the CycloneDX format. This type, and those below, contain only
// the fields of the format that this program needs.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     bomMetadata  `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref     string    `json:"bom-ref"`
	Type    string    `json:"type"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Purl    string    `json:"purl"`
	Hashes  []bomHash `json:"hashes,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// sbom writes the bill of materials of the program p. The dependencies are those that the go
// command has recorded in the executable file.
func (w builder) sbom(p program) error {
	data, err := json.MarshalIndent(newBOM(p, w.version, w.time), "", "  ")
	if err != nil {
		return err
	}
	return w.write(w.name(p.target)+".cdx.json", append(data, '\n'))
}

func newBOM(p program, v version, at time.Time) bom {
	sum := sha256.Sum256(p.file.data)
	self := part("application", p.info.Main.Path, v.text)
	self.Purl += "?goos=" + p.os + "&goarch=" + p.arch
	self.Ref = self.Purl
	self.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}
	// Include the standard library, because scanners look for known vulnerabilities in its version.
	parts := []component{part("library", "std", strings.TrimPrefix(p.info.GoVersion, "go"))}
	for _, m := range p.info.Deps {
		parts = append(parts, part("library", m.Path, replaced(m).Version))
	}
	var refs []string
	for _, c := range parts {
		refs = append(refs, c.Ref)
	}
	return bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1, Serial: serial(sum),
		Metadata:     bomMetadata{at.Format(time.RFC3339), self},
		Components:   parts,
		Dependencies: []dependency{{self.Ref, refs}},
	}
}

func replaced(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func part(kind, module, version string) component {
	purl := "pkg:golang/" + module + "@" + url.PathEscape(version)
	return component{Ref: purl, Type: kind, Name: module, Version: version, Purl: purl}
}

// serial returns a UUID that depends only on the given checksum, so that every build of the same
// program has the same serial number. It is a UUID of version 8, whose contents are custom.
func serial(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
