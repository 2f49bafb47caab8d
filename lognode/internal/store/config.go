package store

import (
	"errors"
	"fmt"
	"time"
)

const (
	// groupBytes bounds a transaction: this much or one entry, whichever is larger.
	groupBytes = 4 << 20
	// groupEntries bounds a transaction's entries, so that it stays under Badger's own limit, which
	// depends on MemTableSize (15 % of it, less than 190 bytes an entry here).
	groupEntries = 8192
	// MaxEntryBytes is the largest encoded entry: what the largest batch needs with the records of about 1 MiB that may be before
	// it. Badger takes no value above valueLogFileSize, and a stream between nodes carries an entry in its framing, behind the
	// smaller ones of one piece of a segment (link.MaxMessage).
	MaxEntryBytes = 20 << 20

	memTableSize     = 16 << 20
	valueLogFileSize = 32 << 20
	valueThreshold   = 128

	// maxTables is how many tables Badger has made of a volume's memtables when the volume is full: they are not merged, and a read
	// may have to look into each. A memtable takes 220,000 entries that lie in the value log, so that only smaller ones, of which it
	// takes 120,000, fill a volume of 256 MiB before its bytes do: with 100 MB of entries of 110 bytes.
	maxTables = 8
	// tablesEvery is after how many entries the tables are counted; a memtable takes ten times as many.
	tablesEvery = groupEntries
)

// Config says where a store is and how much it may use.
type Config struct {
	// Dir is the data directory; it is made if it does not exist.
	Dir string
	// VolumeBytes is how many bytes of entries go into a volume before the next one is used.
	VolumeBytes int64
	// BallastBytes is the size of the file that is removed when the disk is too full to open; 0 for none.
	BallastBytes int64
	// LedgerEvery is how often at most the ledger records what moved.
	LedgerEvery time.Duration
	// QueueBytes bounds the entries that wait for a commit; Append answers ErrBusy beyond it.
	QueueBytes int64
	// MaxOpenVolumes is how many closed volumes stay open for reading when nobody uses them.
	MaxOpenVolumes int
	// PublishShare and RefuseShare are the watermarks, as used share of the disk: above the first
	// publishes are refused (PublishAllowed), above the second every append.
	PublishShare, RefuseShare float64
	// SpaceEvery is how long a reading of the disk's usage is good for; negative: not at all (tests).
	SpaceEvery time.Duration
	// DiskUsage reads the usage of the disk that holds dir; nil means statfs.
	DiskUsage func(dir string) (used, total uint64, err error)
	// BeforeSync is called before entries are written and synced, with how many bytes of them, and before a probe with 0. A
	// disk is as slow as it is. For tests; nil is nothing.
	BeforeSync func(bytes int64)
}

// DefaultConfig is the configuration for real use of a directory.
func DefaultConfig(dir string) Config {
	return Config{
		Dir:            dir,
		VolumeBytes:    256 << 20,
		BallastBytes:   64 << 20,
		LedgerEvery:    100 * time.Millisecond,
		QueueBytes:     64 << 20,
		MaxOpenVolumes: 32,
		PublishShare:   0.90,
		RefuseShare:    0.97,
		SpaceEvery:     100 * time.Millisecond,
	}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("store: "+format, args...))
		}
	}
	bad(c.Dir != "", "Dir is empty")
	bad(c.VolumeBytes >= 1<<10, "VolumeBytes is %d, must be at least 1 KiB", c.VolumeBytes)
	bad(c.BallastBytes >= 0, "BallastBytes is %d", c.BallastBytes)
	bad(c.LedgerEvery > 0, "LedgerEvery is %s, must be above 0", c.LedgerEvery)
	bad(c.QueueBytes > 0, "QueueBytes is %d, must be above 0", c.QueueBytes)
	bad(c.MaxOpenVolumes > 0, "MaxOpenVolumes is %d, must be above 0", c.MaxOpenVolumes)
	bad(c.PublishShare > 0 && c.PublishShare <= c.RefuseShare && c.RefuseShare <= 1,
		"PublishShare %g and RefuseShare %g must be above 0, in this order and at most 1", c.PublishShare, c.RefuseShare)
	return errors.Join(errs...)
}
