package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/splashdam/splashdam/shared/mq"
)

// tables are the tables that a directory is to have, as its manifest says, and what is wrong with them.
type tables struct {
	dir    string
	levels map[uint64]uint8
	// broken are those of them that can't be read.
	broken map[uint64]error
	// unnamed says that the manifest does not name all that are in levels; lost is why it can't be read, nil if it can.
	unnamed bool
	lost    error
}

// damage is what is wrong, or nil.
func (t *tables) damage() error {
	var errs []error
	if t.lost != nil {
		errs = append(errs, fmt.Errorf("%w: %s: %w", ErrDamaged, badger.ManifestFilename, t.lost))
	}
	for id, err := range t.broken {
		errs = append(errs, fmt.Errorf("%w: table %s: %w", ErrDamaged, table.NewFilename(id, t.dir), err))
	}
	return errors.Join(errs...)
}

// inspectTables reads the manifest and every table of a directory. Badger opens tables on goroutines of its own, where a panic
// over a truncated one can't be recovered from, so they are tried here first. One that is whole and that the manifest does not
// name is taken in: either the manifest lost its end, and Badger would remove the table; or a crash left it there, and all
// that is in it is in a WAL, too. One that is not whole then is what a crash left of a table that was being written.
func inspectTables(dir string, opt badger.Options) (*tables, error) {
	t := &tables{dir: dir, levels: map[uint64]uint8{}, broken: map[uint64]error{}}
	names, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return t, nil
		}
		return nil, fmt.Errorf("store: %w", err)
	}
	there := map[uint64]bool{}
	var others bool // what Badger makes after the manifest only
	firstWAL := false
	for _, e := range names {
		if id, ok := table.ParseFileID(e.Name()); ok {
			there[id] = true
		}
		firstWAL = firstWAL || e.Name() == "00001.mem"
		switch filepath.Ext(e.Name()) {
		case ".sst", ".mem", ".vlog", brokenExt:
			others = true
		}
	}
	if err := t.readManifest(opt); err != nil {
		return nil, err
	}
	if errors.Is(t.lost, fs.ErrNotExist) && !others {
		t.lost = nil // Badger makes one
	}
	if t.lost != nil {
		// Nothing is merged here, so that the numbers have no gaps: one that is missing was lost with the manifest. None was made
		// while the first WAL is there.
		last := uint64(1)
		if len(there) > 0 {
			last = slices.Max(slices.Collect(maps.Keys(there)))
		} else if firstWAL {
			last = 0
		}
		for id := uint64(1); id <= last; id++ {
			t.levels[id] = 0
		}
	}
	for id := range there {
		_, named := t.levels[id]
		err := checkTable(table.NewFilename(id, dir))
		switch {
		case err != nil && exhausted(err):
			return nil, fmt.Errorf("store: table %d: %w", id, err)
		case err != nil && named:
			t.broken[id] = err
		case err == nil && !named:
			t.levels[id], t.unnamed = 0, true
		}
	}
	for id := range t.levels {
		if !there[id] {
			t.broken[id] = fs.ErrNotExist
		}
	}
	return t, nil
}

// readManifest fills in what the manifest names, or why it can't be read.
func (t *tables) readManifest(opt badger.Options) error {
	f, err := os.Open(filepath.Join(t.dir, badger.ManifestFilename))
	if err == nil {
		defer f.Close()
		var m badger.Manifest
		m, _, err = badger.ReplayManifestFile(f, opt.ExternalMagicVersion, opt)
		for id, named := range m.Tables {
			t.levels[id] = named.Level
		}
	}
	if err != nil && exhausted(err) {
		return fmt.Errorf("store: %w", err)
	}
	t.lost = err
	return nil
}

// writeManifest writes a manifest that names the tables. Its form is that of Badger 4.9 (manifest.go): the magic bytes, then
// length and CRC of a protobuf message, here one that has a change for each table with its number (field 1) and level (3).
func (t *tables) writeManifest() error {
	var set []byte
	for _, id := range slices.Sorted(maps.Keys(t.levels)) {
		change := binary.AppendUvarint([]byte{1 << 3}, id)
		change = binary.AppendUvarint(append(change, 3<<3), uint64(t.levels[id]))
		set = append(binary.AppendUvarint(append(set, 1<<3|2), uint64(len(change))), change...)
	}
	b := append([]byte("Bdgr"), 0, 0, 0, 8) // no magic number of ours, Badger's version of the form
	b = binary.BigEndian.AppendUint32(b, uint32(len(set)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(set, castagnoli))
	return writeFileSynced(filepath.Join(t.dir, badger.ManifestFilename), append(b, set...))
}

// tableOptions are those with which Badger opens and makes the tables here.
func tableOptions() table.Options {
	return table.Options{
		ReadOnly: true, Compression: options.None, ChkMode: options.OnTableAndBlockRead,
		BlockSize: 4 << 10, TableSize: 2 << 20, BloomFalsePositive: 0.01,
	}
}

func checkTable(name string) error {
	return withTable(name, func(*table.Table) error { return nil })
}

// withTable opens a table, checks all of it and calls f.
func withTable(name string, f func(*table.Table) error) error {
	return guarded(func() error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.Size() < 8 {
			return fmt.Errorf("%d bytes", info.Size())
		}
		file, err := z.OpenMmapFile(name, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		t, err := table.OpenTable(file, tableOptions())
		if err != nil {
			return err
		}
		return errors.Join(f(t), t.Close(-1))
	})
}

// Mending makes Badger open a directory in which tables or the manifest are broken. What is broken is put aside under another
// name; each broken table is replaced by one with the entries that are intact (salvage.go), the manifest by one that names what is there. A
// crash at any step leaves something that is mended again: a table or a manifest that is broken still, or missing. The names of
// what was put aside say, until they are changed once more, that something may be missing and that nobody was told yet.

const (
	brokenExt = ".broken" // put aside
	toldExt   = ".told"   // put aside, and what that means for segments is on disk
)

// keeps says which entries a mended table may hold. lost are the numbers of the tables that were lost.
type keeps func(lost []uint64) func(id mq.SegmentID, at mq.Position) bool

func (t *tables) mend(keep keeps) error {
	ids := slices.Sorted(maps.Keys(t.broken))
	lost, err := lostTables(t.dir)
	if err != nil {
		return err
	}
	lost = append(lost, ids...)
	var entries []saved
	if len(ids) > 0 {
		if entries, err = t.salvage(ids, keep(lost)); err != nil {
			return err
		}
	}
	if err := t.mendManifest(ids); err != nil {
		return err
	}
	for _, id := range ids {
		name := table.NewFilename(id, t.dir)
		b, err := buildTable(entries)
		if err == nil {
			err = putAside(name)
		}
		if err == nil {
			err = writeFileSynced(name, b)
		}
		if err != nil {
			return err
		}
		entries = nil // one table holds them all
	}
	return nil
}

// mendManifest makes the manifest name all tables. A table that is made anew has keys of all kinds, so that it is one of level 0, where
// tables may overlap.
func (t *tables) mendManifest(anew []uint64) error {
	write := t.unnamed || t.lost != nil
	for _, id := range anew {
		write = write || t.levels[id] != 0
		t.levels[id] = 0
	}
	if t.lost != nil {
		if err := putAside(filepath.Join(t.dir, badger.ManifestFilename)); err != nil {
			return err
		}
	}
	if !write {
		return nil
	}
	return t.writeManifest()
}

// putAside gives a broken file another name. One that is missing leaves an empty one there, to tell of it. A file that is there is from
// a mending that a crash interrupted, and is the one that was broken first.
func putAside(name string) error {
	if _, err := os.Stat(name + brokenExt); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: %w", err)
	}
	err := os.Rename(name, name+brokenExt)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFileSynced(name+brokenExt, nil)
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDir(filepath.Dir(name))
}

// asides are the files of a directory that were put aside and of which nobody was told yet.
func asides(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+brokenExt))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return names, nil
}

// lostTables are the numbers of the tables among them.
func lostTables(dir string) (ids []uint64, err error) {
	names, err := asides(dir)
	for _, name := range names {
		if id, ok := table.ParseFileID(name[:len(name)-len(brokenExt)]); ok {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// toldOf notes that what was put aside in a directory has been told.
func toldOf(dir string) error {
	names, err := asides(dir)
	for _, name := range names {
		if err := os.Rename(name, name[:len(name)-len(brokenExt)]+toldExt); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	if err != nil || len(names) == 0 {
		return err
	}
	return syncDir(dir)
}
