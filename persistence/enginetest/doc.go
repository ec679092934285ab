// Package enginetest holds engines and machines for tests of shard hosts and of
// engines.
//
//   - [Mem] is an engine without a disk. A test says when entries become durable
//     ([Manual]), crashes it ([Mem.Crash]) or lets its next write fail
//     ([Mem.Fail]).
//   - [Chaos] is Mem with an owner that changes at random, from a number, so that
//     a failing run can be played again.
//   - [Ledger] is a machine that keeps what it is told and counts every broken
//     law of package engine.
//   - [Conform] is the suite that every engine has to pass.
//
// Everything that waits here waits on a channel, so all of it can be used inside
// a testing/synctest bubble. The package must not know what a body means.
package enginetest
