package keyexpr

import (
	"math"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/pyrula/pyrula-node/flow"
)

// Bounds of an expression and of what it may do. They hold the time of one computation
// without a clock, so that the same object gives the same answer on a busy machine.
const (
	maxNesting      = 50       // levels of an expression
	maxNodes        = 1_000    // of an expression with its macros written out
	maxLoops        = 8        // of an expression: all, exists, exists_one, filter, map, optMap and optFlatMap
	maxRegexSteps   = 250      // instructions of a pattern
	maxMatchedBytes = 4 << 10  // of a text that is matched against a pattern
	maxCost         = 10_000   // units of cost of a computation
	maxValueBytes   = 64 << 10 // of a value that is read or made: a number, a list, a name count too
	maxLevels       = 64       // of lists and objects in a value of the object
)

// maxMeasured is how deep values are measured: those of the object, the lists that an
// expression writes around them, and those that its loops do.
const maxMeasured = 4 * maxLevels

// sizes measures values: a text by its bytes, everything else as one and what is in it.
var sizes = types.NewSizeCalculator(
	types.SizeCalculatorStringUnitLength(1), types.SizeCalculatorMaxDepth(maxMeasured), types.SizeCalculatorMaxTraversal(maxValueBytes),
)

// newLanguage is CEL as expressions have it.
func newLanguage() (*cel.Env, error) {
	settleSharedErrors()
	object := cel.MapType(cel.StringType, cel.DynType)
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(env.NewLibrarySubset().AddExcludedFunctions(zoned()...))),
		cel.OptionalTypes(),
		cel.Variable(paramsName, object), cel.Variable(eventName, object),
		cel.ParserRecursionLimit(maxNesting), cel.ExpressionNodeLimit(maxNodes),
		cel.ParserExpressionSizeLimit(flow.MaxExpressionBytes), cel.RegexProgramSizeLimit(maxRegexSteps),
		cel.EagerlyValidateDeclarations(true),
	}
	return cel.NewCustomEnv(append(options, textFunctions()...)...)
}

// programOptions bound what a computation costs and holds. Sizes are measured because
// values can share parts: a few loops make a list of lists that takes no memory and would
// take hours to compare.
func programOptions() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.CostTracking(prices{}), cel.CostLimit(maxCost),
		cel.MemoryTracking(types.MemoryTrackerSizeCalculator(sizes)), cel.MemoryLimit(maxValueBytes),
		cel.OptimizeRegex(&interpreter.RegexOptimization{Function: overloads.Matches, RegexIndex: 1, Factory: matcher}),
	}
}

// zoned are the parts of a time in a zone: they would read the zones of the machine.
func zoned() []*env.Function {
	var excluded []*env.Function
	for name, id := range map[string]string{
		overloads.TimeGetFullYear:     overloads.TimestampToYearWithTz,
		overloads.TimeGetMonth:        overloads.TimestampToMonthWithTz,
		overloads.TimeGetDayOfYear:    overloads.TimestampToDayOfYearWithTz,
		overloads.TimeGetDayOfMonth:   overloads.TimestampToDayOfMonthZeroBasedWithTz,
		overloads.TimeGetDate:         overloads.TimestampToDayOfMonthOneBasedWithTz,
		overloads.TimeGetDayOfWeek:    overloads.TimestampToDayOfWeekWithTz,
		overloads.TimeGetHours:        overloads.TimestampToHoursWithTz,
		overloads.TimeGetMinutes:      overloads.TimestampToMinutesWithTz,
		overloads.TimeGetSeconds:      overloads.TimestampToSecondsWithTz,
		overloads.TimeGetMilliseconds: overloads.TimestampToMillisecondsWithTz,
	} {
		excluded = append(excluded, env.NewFunction(name, &env.Overload{ID: id}))
	}
	return excluded
}

// prices are what calls cost: one, and a tenth of the sizes that go in and of the text that
// comes out. CEL's own prices are by declared types, and params have none.
type prices struct{}

// CallCost implements cost.ActualCostEstimator. A pattern costs what CEL says: the text
// times the pattern.
func (prices) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	if function == overloads.Matches {
		return nil
	}
	price := sizeOf(result)
	for _, arg := range args {
		price += sizeOf(arg)
	}
	price = 1 + price/10
	return &price
}

func sizeOf(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case traits.Lister, traits.Mapper:
		return uint64(sizes.AggregateSize(v))
	default:
		return 0
	}
}

var settled sync.Once

// settleSharedErrors gives the errors that all computations of the process share a node that
// no expression has. Otherwise the first expression that fails so would write its own there,
// while others read it.
func settleSharedErrors() {
	settled.Do(func() {
		types.LabelErrNode(-1, types.NoSuchOverloadErr())
		types.LabelErrNode(-1, types.Int(math.MaxInt64).ConvertToType(types.TimestampType))
	})
}
