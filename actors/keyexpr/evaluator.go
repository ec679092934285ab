package keyexpr

import (
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
)

// Evaluator checks and computes keys that are expressions. It is safe for concurrent use,
// and keeps what it compiled last.
type Evaluator struct {
	env      *cel.Env
	programs programs
}

// New makes an Evaluator. Error: none that an input could cause.
func New() (*Evaluator, error) {
	env, err := newLanguage()
	if err != nil {
		return nil, err
	}
	return &Evaluator{env: env}, nil
}

// Check refuses an expression, without its "cel:", that can't be a key (P57). field is the
// policy's key in the error, "limit.key". Error: *flow.FieldError of flow.ErrConfiguration,
// which says where in the expression the fault is.
func (e *Evaluator) Check(field, expression string) error {
	_, err := e.program(field, expression)
	return err
}

// Key is the text of the key that an expression gives for an object, which is valid JSON; of
// anything else the answer is some text or an error (P12, P60). Error: *flow.FieldError of
// flow.ErrConfiguration under field, which says what failed and where, also for a text over
// flow.MaxKeyBytes.
func (e *Evaluator) Key(field, expression string, object []byte) (string, error) {
	p, err := e.program(field, expression)
	if err != nil {
		return "", err
	}
	root := gjson.ParseBytes(object)
	if !root.IsObject() {
		return "", refused(field, noKey+"they must be a JSON object")
	}
	out, _, err := p.run.Eval(&input{value: p.needs.read(root)})
	if err != nil {
		return "", refused(field, noKey+p.failure(err, root))
	}
	text, err := keyText(out)
	if err != nil {
		return "", refused(field, noKey+wanted(err))
	}
	if err := flow.CheckKey(field, text); err != nil {
		return "", refused(field, wanted(err))
	}
	return text, nil
}

// program is what an expression was compiled to, now or before. An expression that can't be
// compiled is compiled each time.
func (e *Evaluator) program(field, expression string) (*program, error) {
	if p := e.programs.find(expression); p != nil {
		return p, nil
	}
	if n := len(expression); n == 0 || n > flow.MaxExpressionBytes || !utf8.ValidString(expression) {
		return nil, refused(field, "must be a CEL expression of 1 to 512 bytes of UTF-8")
	}
	p, err := compile(e.env, expression)
	if err != nil {
		return nil, refused(field, err.Error())
	}
	e.programs.keep(expression, p)
	return p, nil
}

// input is what the names of an expression stand for.
type input struct{ value any }

// ResolveName implements cel.Activation.
func (in *input) ResolveName(name string) (any, bool) { return in.value, isRoot(name) }

// Parent implements cel.Activation.
func (in *input) Parent() cel.Activation { return nil }
