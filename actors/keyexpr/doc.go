// Package keyexpr computes the keys of policies that are declared as expressions: the key
// "cel:params.tenant" of a Limit is what the expression params.tenant gives for the params
// of a run (P12). The language is CEL, the Common Expression Language.
//
// An expression sees one value, a JSON object, under two names: params, and event for the
// key of a trigger, whose object is an event. Of its standard library it has everything but
// the time zones of the machine. It has optional values, and these functions of text, which
// count in characters: lowerAscii, upperAscii, trim, split, join, replace, substring,
// indexOf. Nothing that it can call reads a clock, a file or chance, so an expression and an
// object have one key on every machine.
//
//	params.tenant
//	params.tenant + "/" + params.region.lowerAscii()
//	params.?tenant.orValue("")
//	has(params.tenant) ? params.tenant : "none"
//	event.email.split("@")[1]
//	params["order-id"] + params["in"]
//	{"de": "eu", "fr": "eu"}[?params.country].orValue("rest")
//	params.items.exists(i, i.express) ? "express" : "standard"
//
// The result is a key by the rules of a parameter (P60): a string is itself, an integer its
// digits, a bool a word, null the empty text, 1.0 is 1, and a list or an object its canonical
// JSON. A parameter that isn't there is an error, as everywhere in CEL, and not the empty key
// of a parameter's name (P13): orValue("") makes it that.
//
// Numbers of the object without a fraction or an exponent are ints, or uints where they don't
// fit, and doubles where they fit neither. Of a name that stands twice the last counts. A
// text with a half of a surrogate pair is an error where the expression uses it.
//
// # What is refused when it is declared
//
// Check refuses what is no expression or calls what isn't there (P57); a result that is no
// key by its type: bytes, a time, a type, an optional, a list, a map; a map that isn't looked
// up where it is written, because its order would show; a pattern of matches that isn't
// written out or is too large; and what is over flow.MaxExpressionBytes or too deep.
//
// # What is refused when it is computed
//
// Key refuses what fails: a missing parameter, an index out of range, an overflow, a division
// by zero, a result that is no key. The work and the size of values are bounded: a
// computation has 10,000 units of cost, most calls cost one and a tenth of the bytes that go
// in, and no value that it reads or makes is over 64 KiB. What it doesn't read may be of any
// size.
package keyexpr
