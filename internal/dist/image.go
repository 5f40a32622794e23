package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"
)

// Media types of the OCI image format. The types below contain only the fields of that format that
// this program needs.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	Schema    int          `json:"schemaVersion"`
	MediaType string       `json:"mediaType"`
	Manifests []descriptor `json:"manifests"`
}

type manifest struct {
	Schema    int          `json:"schemaVersion"`
	MediaType string       `json:"mediaType"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

type imageConfig struct {
	platform
	Created string       `json:"created"`
	Config  runConfig    `json:"config"`
	RootFS  rootFS       `json:"rootfs"`
	History []imageEvent `json:"history"`
}

type runConfig struct {
	User       string
	Env        []string
	Entrypoint []string
	WorkingDir string
	Labels     map[string]string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type imageEvent struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// nobody is the id of the user and of the group that run zksh in a container. Images without an
// operating system usually call this user nonroot.
const nobody = 65532

// A layout is an OCI image layout to which blobs are being added.
type layout struct {
	blobs []file
}

// image writes a tar file with an OCI image layout, which contains an image for each Linux
// program. It writes nothing if there is no Linux program.
func (w builder) image(programs []program) error {
	var l layout
	var manifests []descriptor
	for _, p := range programs {
		if p.os != "linux" {
			continue
		}
		d, err := l.manifest(w, p)
		if err != nil {
			return err
		}
		manifests = append(manifests, d)
	}
	if manifests == nil {
		return nil
	}
	all, err := l.addJSON(typeIndex, index{2, typeIndex, manifests})
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": w.version.text}
	top, err := json.Marshal(index{2, typeIndex, []descriptor{all}})
	if err != nil {
		return err
	}
	data, err := tarred(append(l.blobs,
		file{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		file{name: "index.json", mode: 0o644, data: top}), w.time)
	if err != nil {
		return err
	}
	return w.write("zksh_"+w.version.number()+"_image.tar", data)
}

// addBlob adds data as a blob to the layout and returns its descriptor. The name of a blob is its
// checksum.
func (l *layout) addBlob(mediaType string, data []byte) descriptor {
	digest := sha256.Sum256(data)
	l.blobs = append(l.blobs, file{name: fmt.Sprintf("blobs/sha256/%x", digest), mode: 0o644, data: data})
	return descriptor{MediaType: mediaType, Digest: fmt.Sprintf("sha256:%x", digest), Size: len(data)}
}

func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return l.addBlob(mediaType, data), err
}

// manifest adds an image with the program p to the layout. It returns the descriptor of the
// image's manifest.
func (l *layout) manifest(w builder, p program) (descriptor, error) {
	root, err := rootFilesystem(p, w.time)
	if err != nil {
		return descriptor{}, err
	}
	packed, err := compressed(root)
	if err != nil {
		return descriptor{}, err
	}
	created, on := w.time.Format(time.RFC3339), platform{p.arch, p.os}
	config, err := l.addJSON(typeConfig, imageConfig{
		platform: on, Created: created,
		Config: runConfig{
			User: fmt.Sprintf("%d:%d", nobody, nobody), Env: []string{"PATH=/usr/bin", "HOME=/home/nonroot"},
			Entrypoint: []string{"/usr/bin/zksh"}, WorkingDir: "/home/nonroot",
			Labels: map[string]string{
				"org.opencontainers.image.title": "zksh", "org.opencontainers.image.description": summary,
				"org.opencontainers.image.version": w.version.text, "org.opencontainers.image.source": home,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		RootFS:  rootFS{"layers", []string{fmt.Sprintf("sha256:%x", sha256.Sum256(root))}},
		History: []imageEvent{{created, "zksh " + w.version.text}},
	})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.addJSON(typeManifest, manifest{2, typeManifest, config, []descriptor{l.addBlob(typeLayer, packed)}})
	d.Platform = &on
	return d, err
}

// rootFilesystem returns the file system of an image as a tar archive. It contains the program,
// the licences, the user nonroot, and two directories in which this user can write.
func rootFilesystem(p program, at time.Time) ([]byte, error) {
	all := []file{
		{name: "usr/bin/zksh", mode: p.file.mode, data: p.file.data},
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "nonroot:x:%d:%d::/home/nonroot:/sbin/nologin\n", nobody, nobody)},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "nonroot:x:%d:\n", nobody)},
		{name: "home/nonroot", mode: fs.ModeDir | 0o700, owner: nobody},
		{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	for _, f := range p.extras {
		if f.name == licence || f.name == notices {
			f.name = "usr/share/licenses/zksh/" + f.name
			all = append(all, f)
		}
	}
	return tarred(all, at)
}
