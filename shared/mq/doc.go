// Package mq is the vocabulary of Splashdam: identities, positions, segments, records, entries,
// batches, message ids, receipts and settings, with their binary forms. It holds no behaviour of a
// tier and imports only the standard library, so that every other package can share its words.
//
// From the outside in: a user publishes a Message; a gateway packs messages into a Batch; the
// partition's leader puts batches and other facts as records into an Entry; entries form a Segment;
// segments form a partition's journal.
package mq
