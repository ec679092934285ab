package actors

import "github.com/pyrula/pyrula-node/flow"

// evaluate is flow.Evaluate by the configured Expressions.
func (n *Node) evaluate(field, expression string, object []byte) (string, error) {
	if n.cfg.Expressions == nil {
		return "", noExpressions(field)
	}
	return n.cfg.Expressions.Key(field, expression, object)
}

func noExpressions(field string) error {
	return &flow.FieldError{
		Kind: flow.ErrConfiguration, Field: field,
		Want: "must be the name of a parameter or a function: this node computes no expressions",
	}
}

// checkExpressions refuses a declaration with a key that is no usable expression.
func (n *Node) checkExpressions(def *flow.Definition) error {
	check := func(field string, key flow.KeySource) error {
		expression, is := key.Expression()
		switch {
		case !is:
			return nil
		case n.cfg.Expressions == nil:
			return noExpressions(field)
		}
		return n.cfg.Expressions.Check(field, expression)
	}
	for i := range def.Rules {
		if err := check(def.Rules[i].Kind.String()+".key", def.Rules[i].Key); err != nil {
			return err
		}
	}
	if t := def.Trigger; t != nil {
		return check("trigger."+t.Kind.String()+".key", t.Key)
	}
	return nil
}
