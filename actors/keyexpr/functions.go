package keyexpr

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// textFunctions are those of CEL's extension for strings that a key can need, with its names
// and meanings. Its own replace and join make gigabytes of a few KiB before they cost
// anything.
func textFunctions() []cel.EnvOption {
	str, num, list := cel.StringType, cel.IntType, cel.ListType(cel.StringType)
	one := func(name, id string, f func(string) string) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(id, []*cel.Type{str}, str, cel.UnaryBinding(func(s ref.Val) ref.Val {
			return types.String(f(string(s.(types.String))))
		})))
	}
	return []cel.EnvOption{
		one("lowerAscii", "string_lower_ascii", lowerASCII),
		one("upperAscii", "string_upper_ascii", upperASCII),
		one("trim", "string_trim", strings.TrimSpace),
		cel.Function("split", cel.MemberOverload("string_split_string", []*cel.Type{str, str}, list, cel.BinaryBinding(split))),
		cel.Function("join",
			cel.MemberOverload("list_join", []*cel.Type{list}, str, cel.UnaryBinding(func(l ref.Val) ref.Val { return join(l, types.String("")) })),
			cel.MemberOverload("list_join_string", []*cel.Type{list, str}, str, cel.BinaryBinding(join))),
		cel.Function("replace",
			cel.MemberOverload("string_replace_string_string", []*cel.Type{str, str, str}, str, cel.FunctionBinding(replace))),
		cel.Function("indexOf", cel.MemberOverload("string_index_of_string", []*cel.Type{str, str}, num, cel.BinaryBinding(indexOf))),
		cel.Function("substring",
			cel.MemberOverload("string_substring_int", []*cel.Type{str, num}, str, cel.FunctionBinding(substring)),
			cel.MemberOverload("string_substring_int_int", []*cel.Type{str, num, num}, str, cel.FunctionBinding(substring))),
	}
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - ('a' - 'A')
		}
		return r
	}, s)
}

func split(s, sep ref.Val) ref.Val {
	return types.NewStringList(types.DefaultTypeAdapter, strings.Split(string(s.(types.String)), string(sep.(types.String))))
}

// join refuses what would be too large before it is made.
func join(list, sep ref.Val) ref.Val {
	l, between := list.(traits.Lister), string(sep.(types.String))
	n := int(l.Size().(types.Int))
	parts := make([]string, 0, n)
	size := max(0, n-1) * len(between)
	for i := range n {
		item := l.Get(types.Int(i))
		s, ok := item.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(item)
		}
		parts = append(parts, string(s))
		size += len(s)
	}
	if size > maxValueBytes {
		return types.NewErr("%s", tooLarge("the joined text"))
	}
	return types.String(strings.Join(parts, between))
}

func replace(args ...ref.Val) ref.Val {
	s, old, by := string(args[0].(types.String)), string(args[1].(types.String)), string(args[2].(types.String))
	if size := len(s) + strings.Count(s, old)*(len(by)-len(old)); size > maxValueBytes {
		return types.NewErr("%s", tooLarge("the replaced text"))
	}
	return types.String(strings.ReplaceAll(s, old, by))
}

func indexOf(s, part ref.Val) ref.Val {
	text := string(s.(types.String))
	at := strings.Index(text, string(part.(types.String)))
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(text[:at]))
}

// substring is from a character to before another one, or to the end.
func substring(args ...ref.Val) ref.Val {
	chars := []rune(string(args[0].(types.String)))
	n := types.Int(len(chars))
	from, to := args[1].(types.Int), n
	if len(args) > 2 {
		to = args[2].(types.Int)
	}
	if from < 0 || to < from || to > n {
		return types.NewErr("substring from %d to %d of %d characters", from, to, n)
	}
	return types.String(chars[from:to])
}

// matcher compiles a pattern when the expression is.
func matcher(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	match := func(args ...ref.Val) ref.Val {
		s, ok := args[0].(types.String)
		switch {
		case !ok:
			return types.MaybeNoSuchOverloadErr(args[0])
		case len(s) > maxMatchedBytes:
			return types.NewErr("a text that is matched must be at most %d bytes", maxMatchedBytes)
		}
		return types.Bool(re.MatchString(string(s)))
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), match), nil
}
