//go:build !torture

package main

// kills is how often the kill loop kills the node.
const kills = 6
