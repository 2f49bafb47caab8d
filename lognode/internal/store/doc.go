// Package store keeps a node's replicas on disk: the entries of all its segments, and the node's own
// facts. It is the only importer of Badger.
//
// Goal: an append is answered only after its bytes are synced; what was answered is there after a
// crash, or its absence is noticed; removing old segments gives the space back.
//
// Outline of the directory:
//
//	LOCK             flock; held while a process has the store open
//	facts            framed log of the node's own facts (store id, boot, segments, seals, ends), see facts.go
//	ledger           framed log of marks: how far each segment was synced, see ledger.go
//	volumes/000001   a Badger directory with about VolumeBytes of entries of all segments; *.broken and *.told in it
//	                 are what was mended, see tables.go
//	volumes/000001.list   what a closed volume holds, see volumelist.go
//	footers/7        what was derived of segment 7, see footers.go
//	ballast, probe   see space.go and probe.go
//
// The way of an append: Append (any goroutine) -> queue -> the committer takes what waits, across
// segments, into one transaction -> Badger's value log and WAL are synced -> the segment states move
// (and with them what reads see) -> each append's Done. One goroutine does every write of entries
// (committer.go), because Badger syncs once per transaction and does not group by itself.
//
// Invariants:
//   - a segment's entries form a chain from its base: each At is the Next of the one before, and names
//     it as Prev. The committer refuses everything else, recovery and reads check it.
//   - an entry is in exactly one volume as far as the segment's parts say; parts are in journal order.
//   - reads never see what is not synced: they are bounded by the tail that the committer publishes.
//   - a damaged copy stays, with what is intact of it, until a new one that is whole takes its place (replace.go).
//   - after the first failed write nothing is written or acknowledged any more (fail-stop).
//
// Rejected: a Badger per partition (a sync each, half the appends per second), one big Badger (deletes
// free nothing), Badger's WriteBatch (splits by itself), SyncWrites off with DB.Sync (loses acknowledged
// groups when the WAL has just been rotated), a value log GC (rewrites what a volume's removal frees).
//
// Badger runs in managed mode: the committer chooses the timestamps, so that a read is at the last synced
// one and need not wait for the commit that is under way.
package store
