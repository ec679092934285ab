//go:build !race

package tidy

var raceFlag []string
