//go:build torture

package main

// eventKills is how often the kill loop of events kills the node.
const eventKills = 300
