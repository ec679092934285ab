// Package tidy holds the rules of this repository as tests: which package may
// import which, what the pure packages may not touch, how long a file or a
// function may be, what is documented, which words and calls stay out, and that
// docs/rules.md and the names of the tests agree.
//
// It has no code of its own besides tests. Each test reads the tree from the
// module's root, also files that are not committed yet, and names every place
// that breaks its rule as file:line.
//
// # Markers
//
// Where a rule allows an exception, a comment says so and why:
//
//	//tidy:ordered <reason>  on or above a range over a map: the order can't be seen
//	//tidy:long <reason>     above a function that is one dispatching switch
//	//tidy:params <reason>   above a method whose parameters somebody else decides
//	//tidy:clock <reason>    on or above a reading of the clock in actors
//
// A marker without a reason, of an unknown kind, or that excuses nothing is itself
// a failure.
//
// # What this package must not know
//
// It knows names, places and shapes, and never what the code computes.
package tidy
