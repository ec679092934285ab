package keyexpr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
)

// How refusals begin.
const (
	noExpression = "must be a CEL expression over params: "
	noKey        = "must give a key for these params: "
)

// Bounds of a refusal's text. What CEL says of a fault can hold values of the params, and a
// hint holds names of the expression.
const (
	maxReasonBytes = 160
	maxHintBytes   = 240
)

func refused(field, want string) error {
	return &flow.FieldError{Kind: flow.ErrConfiguration, Field: field, Want: want}
}

// wanted is what an error says without the field, which is another one here.
func wanted(err error) string {
	if f, ok := errors.AsType[*flow.FieldError](err); ok {
		return f.Want
	}
	return oneLine(err.Error())
}

func tooLarge(what string) string {
	return fmt.Sprintf("%s must be at most %d bytes to be used", what, maxValueBytes)
}

// place is line and column of a fault, both from 1, or nothing.
func place(at common.Location) string {
	if at == nil || at.Line() < 1 || at.Column() < 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d: ", at.Line(), at.Column()+1)
}

// oneLine is a text of CEL on one line and not too long.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if len(text) <= maxReasonBytes {
		return text
	}
	end := maxReasonBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// unreadable is the first fault of an expression.
func unreadable(expression string, issues *cel.Issues) string {
	all := issues.Errors()
	if len(all) == 0 {
		return oneLine(issues.Err().Error())
	}
	message, at := all[0].Message, all[0].Location
	if rest, ok := strings.CutPrefix(message, undeclared); ok {
		name, guess, _ := strings.Cut(rest, "'")
		message = undeclared + name + "'" + meant(name, guess, lineOf(expression, at))
	}
	message, _, _ = strings.Cut(message, " expecting {") // every token that there is
	return place(at) + oneLine(plainly.Replace(message))
}

const undeclared = "undeclared reference to '"

// plainly puts words in place of the parser's.
var plainly = strings.NewReplacer(
	"Syntax error", "syntax error", "mismatched input '<EOF>'", "unexpected end", "extraneous input '<EOF>'", "unexpected end",
	"'<EOF>'", "the end", "<EOF>", "the end", "found no matching overload for", "the types don't fit: no overload of",
)

// lineOf is a line of an expression from a place on.
func lineOf(expression string, at common.Location) string {
	lines := strings.Split(expression, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	chars := []rune(lines[at.Line()-1])
	if at.Column() < 0 || at.Column() > len(chars) {
		return ""
	}
	return string(chars[at.Column():])
}

// rootWords are what the object is called by mistake.
var rootWords = map[string]string{
	"param": paramsName, "parms": paramsName, "prams": paramsName, "parameters": paramsName, "args": paramsName, "input": paramsName,
	"payload": paramsName, "run": paramsName, "request": paramsName, "events": eventName, "evt": eventName,
	paramsName: paramsName, eventName: eventName,
}

// notHere are the name spaces of CEL's extensions that aren't served.
var notHere = map[string]bool{"cel": true, "math": true, "strings": true, "sets": true, "lists": true, "regex": true, "base64": true}

// meant suggests what an unknown name was to be; guess is what CEL suggests. A name that
// isn't called is a parameter.
func meant(name, guess, line string) string {
	if word := rootWords[strings.ToLower(name)]; word != "" {
		return ": did you mean " + word + "?"
	}
	rest, found := strings.CutPrefix(line, name)
	switch {
	case notHere[name]:
		return ""
	case found && isWord(name) && !strings.HasPrefix(rest, "("):
		return ": did you mean params." + name + "?"
	case strings.Contains(guess, "enable with"):
		return "" // how a program in Go would declare it
	}
	return guess
}

// failure says why a computation failed, and where.
func (p *program) failure(err error, root gjson.Result) string {
	cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err)
	switch {
	case !ok:
	case cancelled.Cause == interpreter.CostLimitExceeded:
		return fmt.Sprintf("it takes more work than the %d units that an expression may cost", maxCost)
	case cancelled.Cause == interpreter.MemoryLimitExceeded:
		return tooLarge("a value of the expression")
	}
	where := ""
	if failed, ok := errors.AsType[*types.Err](err); ok {
		where = place(p.tree.SourceInfo().GetStartLocation(failed.NodeID()))
	}
	reason := oneLine(err.Error())
	if strings.HasPrefix(reason, "no such overload") {
		reason += ": the types don't fit; string(x) makes a text of a number, and orValue needs an optional, params.?x"
	}
	return where + reason + p.missing(err, root)
}

// missing suggests how to write a parameter that isn't always there.
func (p *program) missing(err error, root gjson.Result) string {
	name, ok := strings.CutPrefix(err.Error(), "no such key: ")
	if !ok {
		return ""
	}
	for _, read := range p.paths {
		i := slices.Index(read.names, name)
		if i < 0 {
			continue
		}
		at := path{read.root, read.names[:i+1]}
		hint := fmt.Sprintf(`; where it may be missing, write has(%s) ? %[1]s : "" or %s.orValue("")`, at, at.text("?"))
		if other := likeness(root, name); i == 0 && other != "" {
			hint = ": did you mean " + path{read.root, []string{other}}.String() + "?"
		} else if !isWord(name) {
			hint = "; where it may be missing, write " + at.text("?") + `.orValue("")`
		}
		if len(hint) <= maxHintBytes {
			return hint
		}
	}
	return ""
}

// likeness is a name of the object that differs in case alone.
func likeness(root gjson.Result, name string) string {
	other := ""
	root.ForEach(func(key, _ gjson.Result) bool {
		if strings.EqualFold(key.Str, name) {
			other = key.Str
		}
		return other == ""
	})
	return other
}
