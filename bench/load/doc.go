// Package load drives closed-loop clients against a node and turns what they saw
// into one line of JSON for each configuration.
//
// What holds: a latency or a count is taken when it ended inside the measured
// window, and in no other place; a figure that is reported is the median
// repetition's, never a mix of several; each line says what machine it is from and
// how busy that machine was with other things.
//
// The package knows no protocol and starts no server: a Client does one cycle, in
// whatever way, and tells its Recorder.
package load
