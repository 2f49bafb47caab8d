package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// mirrorName is the file with the node's copy of the cluster's configuration: one frame.
const mirrorName = "configuration"

// WriteMirror replaces the node's copy of the cluster's configuration, durably and whole: after a crash there is the old one or the
// new one. At most 16 MiB; a larger one is refused.
func (s *Store) WriteMirror(body []byte) error {
	if len(body) > maxFrame {
		return fmt.Errorf("store: a configuration of %d bytes can't be kept, at most %d", len(body), maxFrame)
	}
	path := filepath.Join(s.cfg.Dir, mirrorName)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = f.Write(appendFrame(nil, body))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(s.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("store: writing the configuration's copy: %w", err)
	}
	return nil
}

// ReadMirror is what WriteMirror wrote last; nil if there is none, or it is damaged.
func (s *Store) ReadMirror() []byte {
	b, err := os.ReadFile(filepath.Join(s.cfg.Dir, mirrorName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if body, _, ok := parseFrame(b); ok {
			return body
		}
		err = errors.New("its checksum is wrong")
	}
	s.log.Warn("the copy of the configuration can't be read", "err", err)
	return nil
}
