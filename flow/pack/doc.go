// Package pack writes and reads msgpack by hand: arrays of integers, texts and
// bytes, through an owned encoder or decoder, without reflection. Records,
// letters, declarations and the parts of a snapshot are all written with it.
//
// A Reader trusts no length: each is checked against a bound before anything is
// allocated. Both chain calls and keep the first error, so that a caller checks
// once at the end.
//
// A start reads millions of records, so what lies in memory already is read there
// (see Body), and texts that come again and again are kept once (see Names).
//
// The package knows arrays, numbers and texts; what they mean is its callers'.
package pack
