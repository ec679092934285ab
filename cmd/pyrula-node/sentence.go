package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pyrula/pyrula-node/pyrula"
)

// sentence is an error as a person reads it: what the node says of its own refusal,
// else the error without what only means something in Go.
func sentence(err error) string {
	if refused, ok := errors.AsType[*pyrula.APIError](err); ok && refused.Problem.Detail != "" && refused.Problem.Code != "" {
		return fmt.Sprintf("%s (%s)", refused.Problem.Detail, refused.Problem.Code)
	}
	return plain(err.Error())
}

// plain takes a chain of errors apart and leaves out what it says twice, since each
// layer names what it tried: "open /d: /d: persistence: in use" is "open /d: in use",
// "listen: listen tcp :1: in use" is "listen tcp :1: in use".
func plain(chain string) string {
	var kept []string
	for link := range strings.SplitSeq(chain, ": ") {
		last := len(kept) - 1
		switch {
		case link == "persistence" || link == "flow":
		case last >= 0 && strings.HasSuffix(" "+kept[last], " "+link):
		case last >= 0 && strings.HasPrefix(link, kept[last]+" "):
			kept[last] = link
		default:
			kept = append(kept, link)
		}
	}
	return strings.Join(kept, ": ")
}
