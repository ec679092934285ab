package transport_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// refusal is a body and what it is refused for. WRONG stands for a value of a wrong
// type in a form: see wrongTypes.
type refusal struct{ body, code, field string }

const (
	invalid = wire.CodeInvalid
	unknown = wire.CodeUnknownField
	config  = wire.CodeConfiguration
)

var long = strings.Repeat("x", 20<<10)

// shapeRefusals are the refusals of every shape of a request, by the path that
// takes it. RUN stands for the id of a run.
var shapeRefusals = map[string][]refusal{
	"PUT /v1/workflows/w": {
		{`{"limt":{}}`, unknown, "limt"},
		{`{"limit":{"key":"k","max":1,"min":1}}`, unknown, "limit.min"},
		{`{"rate":{"key":{"function":"f","x":1},"per_second":1}}`, unknown, "rate.key.x"},
		{`{"limit":{"key":"k","max":0}}`, config, "limit.max"},
		{`{"limit":{"key":"k","max":-1}}`, config, "limit.max"},
		{`{"limit":{"key":"k","max":1.5}}`, config, "limit.max"},
		{`{"limit":{"key":"k","max":"1"}}`, config, "limit.max"},
		{`{"limit":{"key":"k","max":1e3}}`, config, "limit.max"},
		{`{"limit":{"key":"k","max":9223372036854775808}}`, config, "limit.max"},
		{`{"limit":{"key":"k"}}`, config, "limit.max"},
		{`{"limit":{"key":"","max":1}}`, config, "limit.key"},
		{`{"limit":{"max":1}}`, config, "limit.key"},
		{`{"limit":{"key":null,"max":1}}`, config, "limit.key"},
		{`{"limit":{"key":7,"max":1}}`, config, "limit.key"},
		{`{"limit":{"key":{"function":""},"max":1}}`, config, "limit.key"},
		{`{"limit":{"key":{"function":7},"max":1}}`, config, "limit.key.function"},
		{`{"limit":{"key":"cel:","max":1}}`, config, "limit.key"},
		{`{"limit":{"key":"cel:` + long[:513] + `","max":1}}`, config, "limit.key"},
		{`{"limit":{"key":"a\u0000","max":1}}`, config, "limit.key"},
		{`{"limit":[]}`, config, "limit"},
		{`{"rate":{"key":"k","per_second":0}}`, config, "rate.per_second"},
		{`{"rate":{"key":"k","per_second":-1}}`, config, "rate.per_second"},
		{`{"rate":{"key":"k","per_second":1e999}}`, config, "rate.per_second"},
		{`{"rate":{"key":"k","per_second":"5"}}`, config, "rate.per_second"},
		{`{"rate":{"key":"k","per_second":1e-9}}`, config, "rate.per_second"},
		{`{"rate":{"key":"k","per_second":1,"burst":0}}`, config, "rate.burst"},
		{`{"rate":{"key":"k","per_second":1,"burst":0.5}}`, config, "rate.burst"},
		{`{"rate":1}`, config, "rate"},
		{`{"version":2}`, config, "version"},
		{`{"version":"` + long[:129] + `"}`, config, "version"},
		{`{"trigger":[]}`, config, "trigger"},
		{`{"trigger":{}}`, config, "trigger"},
		{`{"trigger":{"collect":null,"debounce":null}}`, config, "trigger"},
		{`{"trigger":{"throttle":{}}}`, unknown, "trigger.throttle"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":1},"debounce":{"key":"k","window_seconds":1}}}`, config, "trigger"},
		{`{"trigger":{"collect":7}}`, config, "trigger.collect"},
		{`{"trigger":{"collect":{}}}`, config, "trigger.collect.key"},
		{`{"trigger":{"collect":{"key":"k","window_seconds":1}}}`, config, "trigger.collect.max_events"},
		{`{"trigger":{"collect":{"key":"k","max_events":1}}}`, config, "trigger.collect.window_seconds"},
		{`{"trigger":{"collect":{"key":7,"max_events":1,"window_seconds":1}}}`, config, "trigger.collect.key"},
		{`{"trigger":{"collect":{"key":"cel:","max_events":1,"window_seconds":1}}}`, config, "trigger.collect.key"},
		{`{"trigger":{"collect":{"key":{"label":"f"},"max_events":1,"window_seconds":1}}}`, unknown, "trigger.collect.key.label"},
		{`{"trigger":{"collect":{"key":"k","max_events":0,"window_seconds":1}}}`, config, "trigger.collect.max_events"},
		{`{"trigger":{"collect":{"key":"k","max_events":10001,"window_seconds":1}}}`, config, "trigger.collect.max_events"},
		{`{"trigger":{"collect":{"key":"k","max_events":"1","window_seconds":1}}}`, config, "trigger.collect.max_events"},
		{`{"trigger":{"collect":{"key":"k","max_events":1.5,"window_seconds":1}}}`, config, "trigger.collect.max_events"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":0}}}`, config, "trigger.collect.window_seconds"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":"1"}}}`, config, "trigger.collect.window_seconds"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":31622401}}}`, config, "trigger.collect.window_seconds"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":1,"max_bytes":0}}}`, config, "trigger.collect.max_bytes"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":1,"max_bytes":786433}}}`, config, "trigger.collect.max_bytes"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":1,"max_bytes":true}}}`, config, "trigger.collect.max_bytes"},
		{`{"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":1,"max_wait_seconds":1}}}`, unknown, "trigger.collect.max_wait_seconds"},
		{`{"trigger":{"debounce":{}}}`, config, "trigger.debounce.key"},
		{`{"trigger":{"debounce":{"key":"k"}}}`, config, "trigger.debounce.window_seconds"},
		{`{"trigger":{"debounce":{"key":"","window_seconds":1}}}`, config, "trigger.debounce.key"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":-1}}}`, config, "trigger.debounce.window_seconds"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":1e999}}}`, config, "trigger.debounce.window_seconds"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":2,"max_wait_seconds":1}}}`, config, "trigger.debounce.max_wait_seconds"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":2,"max_wait_seconds":-1}}}`, config, "trigger.debounce.max_wait_seconds"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":2,"max_wait_seconds":"0"}}}`, config, "trigger.debounce.max_wait_seconds"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":1,"max_events":1}}}`, unknown, "trigger.debounce.max_events"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":1}},"limit":{"key":"tenant","max":1}}`, config, "limit.key"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":1}},"rate":{"key":"cel:event.a","per_second":1}}`, config, "rate.key"},
		{`{"trigger":{"debounce":{"key":"k","window_seconds":1}},"kafka":{"topic":"t"}}`, config, "trigger"},
		{`{"budget":{}}`, config, "budget"},
		{`{"kafka":{}}`, config, "kafka.topic"},
		{`{"kafka":{"topic":"a b"}}`, config, "kafka.topic"},
		{`{"kafka":{"topic":7}}`, config, "kafka.topic"},
		{`{"kafka":{"topic":"t","topic":"t"}}`, config, "kafka.topic"},
		{`{"kafka":{"topc":"t"}}`, unknown, "kafka.topc"},
		{`{"kafka":"t"}`, config, "kafka"},
		{`{"kafka":{"topic":"t"},"limit":{"key":"k","max":1}}`, config, "limit"},
		{`{"max_attempts":0}`, config, "max_attempts"},
		{`{"max_attempts":1000001}`, config, "max_attempts"},
		{`{"retry_backoff_seconds":-0.1}`, config, "retry_backoff_seconds"},
		{`{"retry_backoff_seconds":2592001}`, config, "retry_backoff_seconds"},
		{`{"lease_seconds":0.9}`, config, "lease_seconds"},
		{`{"lease_seconds":86401}`, config, "lease_seconds"},
		{`{"version":"1","version":"2"}`, config, "version"},
		{`[]`, config, "body"},
	},
	"POST /v1/workflows/w/runs": {
		{`{"prams":{}}`, unknown, "prams"},
		{`{"PARAMS":{}}`, unknown, "PARAMS"},
		{`{"params":[]}`, invalid, "params"},
		{`{"params":"{}"}`, invalid, "params"},
		{`{"params":7}`, invalid, "params"},
		{`{"params":{},"params":{}}`, invalid, "params"},
		{`{"params":{},"p\u0061rams":{}}`, invalid, "params"},
		{`{"idempotency_key":""}`, invalid, "idempotency_key"},
		{`{"idempotency_key":7}`, invalid, "idempotency_key"},
		{`{"idempotency_key":"` + long[:257] + `"}`, invalid, "idempotency_key"},
		{`{"idempotency_key":"\ud800"}`, invalid, "idempotency_key"},
		{`{"idempotency_key":"\udc00\ud800"}`, invalid, "idempotency_key"},
		{`{"request_id":"` + long[:65] + `"}`, invalid, "request_id"},
		{`{"trigger":"cron"}`, invalid, "trigger"},
		{`{"budget":{"max_cost_units":1}}`, invalid, "budget"},
		{`{"workflow":"other"}`, invalid, "workflow"},
		{`{"stamp":{"version":"a\u0007"}}`, invalid, "stamp.version"},
		{`{"stamp":{"keys":{"limit":"` + long[:1025] + `"}}}`, invalid, "stamp.keys.limit"},
		{`{"stamp":{"keys":{"rate":"` + long[:1025] + `"}}}`, invalid, "stamp.keys.rate"},
		{`{"stamp":{"keys":{"rate":1}}}`, invalid, "stamp.keys.rate"},
		{`{"stamp":{"key":{}}}`, unknown, "stamp.key"},
		{`{"stamp":[]}`, invalid, "stamp"},
		{`"x"`, invalid, "body"},
		{`{"` + long[:200] + `":1}`, unknown, long[:128] + "..."},
	},
	"POST /v1/claims": {
		{`{}`, invalid, "worker"},
		{`{"worker":"","workflows":[{"name":"w"}],"credit":1}`, invalid, "worker"},
		{`{"worker":"w","credit":1}`, invalid, "workflows"},
		{`{"worker":"w","workflows":[],"credit":1}`, invalid, "workflows"},
		{`{"worker":"w","workflows":{},"credit":1}`, invalid, "workflows"},
		{`{"worker":"w","workflows":["w"],"credit":1}`, invalid, "workflows[0]"},
		{`{"worker":"w","workflows":[{"name":"w"},{}],"credit":1}`, invalid, "workflows[1].name"},
		{`{"worker":"w","workflows":[{"name":"v1"}],"credit":1}`, invalid, "workflows[0].name"},
		{`{"worker":"w","workflows":[{"name":"w"},{"name":"w","version":"2"}],"credit":1}`, invalid, "workflows[1].name"},
		{`{"worker":"w","workflows":[{"name":"w","version":1}],"credit":1}`, invalid, "workflows[0].version"},
		{`{"worker":"w","workflows":[{"name":"w","version":"` + long[:129] + `"}],"credit":1}`, invalid, "workflows[0].version"},
		{`{"worker":"w","workflows":[{"name":"w","gates_hash":"` + long[:129] + `"}],"credit":1}`, invalid, "workflows[0].gates_hash"},
		{`{"worker":"w","workflows":[{"name":"w","ver":"1"}],"credit":1}`, unknown, "workflows[0].ver"},
		{`{"worker":"w","workflows":[{"name":"w"}]}`, invalid, "credit"},
		{`{"worker":"w","workflows":[{"name":"w"}],"credit":null}`, invalid, "credit"},
		{`{"worker":"w","workflows":[{"name":"w"}],"credit":-1}`, invalid, "credit"},
		{`{"worker":"w","workflows":[{"name":"w"}],"credit":257}`, invalid, "credit"},
		{`{"worker":"w","workflows":[{"name":"w"}],"credit":1,"wait_ms":30001}`, invalid, "wait_ms"},
		{`{"worker":"w","workflows":[{"name":"w"}],"credit":1,"wait_ms":-1}`, invalid, "wait_ms"},
		{`{"worker":"w","workflows":[{"name":"w"}],"credit":1,"wait_ms":"1"}`, invalid, "wait_ms"},
		{`{"worker":"w","workflows":[` + strings.Repeat(`{"name":"w"},`, 256) + `{"name":"w"}],"credit":1}`, invalid, "workflows"},
	},
	"POST /v1/heartbeats": {
		{`{"runs":[{"run_id":"RUN","fence":1}]}`, invalid, "worker"},
		{`{"worker":"w"}`, invalid, "runs"},
		{`{"worker":"w","runs":[]}`, invalid, "runs"},
		{`{"worker":"w","runs":[{"fence":1}]}`, invalid, "runs[0].run_id"},
		{`{"worker":"w","runs":[{"run_id":"run_x","fence":1}]}`, invalid, "runs[0].run_id"},
		{`{"worker":"w","runs":[{"run_id":"RUN"}]}`, invalid, "runs[0].fence"},
		{`{"worker":"w","runs":[{"run_id":"RUN","fence":1,"x":1}]}`, unknown, "runs[0].x"},
		{`{"worker":"w","runs":[{"run_id":"RUN","fence":-1}]}`, invalid, "runs[0].fence"},
		{`{"worker":"w","runs":[` + strings.Repeat(`{"run_id":"RUN","fence":1},`, 256) + `{"run_id":"RUN","fence":1}]}`, invalid, "runs"},
	},
	"POST /v1/runs/RUN/complete": {
		{`{}`, invalid, "fence"},
		{`{"fence":0}`, invalid, "fence"},
		{`{"fence":null}`, invalid, "fence"},
		{`{"fence":"1"}`, invalid, "fence"},
		{`{"fence":1.5}`, invalid, "fence"},
		{`{"fence":18446744073709551616}`, invalid, "fence"},
		{`{"fence":1,"reslt":1}`, unknown, "reslt"},
		{`{"fence":1,"fence":2}`, invalid, "fence"},
		{`{"fence":1,"claim":{}}`, invalid, "claim.worker"},
		{`{"fence":1,"claim":{"worker":"w","workflows":[{"nme":"w"}]}}`, unknown, "claim.workflows[0].nme"},
		{`{"fence":1,"claim":[]}`, invalid, "claim"},
	},
	"POST /v1/runs/RUN/fail": {
		{`{"error":{"type":"T"}}`, invalid, "fence"},
		{`{"fence":1}`, invalid, "error.type"},
		{`{"fence":1,"error":null}`, invalid, "error.type"},
		{`{"fence":1,"error":{"message":"m"}}`, invalid, "error.type"},
		{`{"fence":1,"error":"boom"}`, invalid, "error"},
		{`{"fence":1,"error":{"type":"` + long[:257] + `"}}`, invalid, "error.type"},
		{`{"fence":1,"error":{"type":"T","message":"` + long[:flow.MaxErrorMessageBytes+1] + `"}}`, invalid, "error.message"},
		{`{"fence":1,"error":{"type":"T","stack":"s"}}`, unknown, "error.stack"},
		{`{"fence":1,"error":{"type":"T"},"retryable":1}`, invalid, "retryable"},
		{`{"fence":1,"error":{"type":"T"},"retriable":true}`, unknown, "retriable"},
		{`{"fence":1,"error":{"type":"T"},"claim":{"worker":"w"}}`, invalid, "claim.workflows"},
	},
	"POST /v1/runs/RUN/suspend": {
		{`{"until":{"at_ms":1}}`, invalid, "fence"},
		{`{"fence":1}`, invalid, "until.at_ms"},
		{`{"fence":1,"until":null}`, invalid, "until.at_ms"},
		{`{"fence":1,"until":{"at_ms":-1}}`, invalid, "until.at_ms"},
		{`{"fence":1,"until":{"at_ms":1.5}}`, invalid, "until.at_ms"},
		{`{"fence":1,"until":{}}`, invalid, "until.at_ms"},
		{`{"fence":1,"until":{"signal":"a\u0000"}}`, invalid, "until.signal"},
		{`{"fence":1,"until":{"signal":7}}`, invalid, "until.signal"},
		{`{"fence":1,"until":{"signal":"s","timeout_seconds":-1}}`, invalid, "until.timeout_seconds"},
		{`{"fence":1,"until":{"signal":"s","timeout_seconds":"1"}}`, invalid, "until.timeout_seconds"},
		{`{"fence":1,"until":{"signal":"s","timeout_seconds":1e300}}`, invalid, "until.timeout_seconds"},
		{`{"fence":1,"until":{"signal":"s","at_ms":1}}`, invalid, "until.at_ms"},
		{`{"fence":1,"until":{"runs":[]}}`, invalid, "until.runs"},
		{`{"fence":1,"until":{"runs":[1]}}`, invalid, "until.runs[0]"},
		{`{"fence":1,"until":{"runs":["x"]}}`, invalid, "until.runs[0]"},
		{`{"fence":1,"until":{"runs":["RUN","RUN"]}}`, invalid, "until.runs[1]"},
		{`{"fence":1,"until":{"runs":[` + strings.Repeat(`"RUN",`, 128) + `"RUN"]}}`, invalid, "until.runs"},
		{`{"fence":1,"until":{"at_ms":1,"timeout_seconds":1}}`, invalid, "until.timeout_seconds"},
		{`{"fence":1,"until":{"at_ms":1},"step":"a\u0000"}`, invalid, "step"},
		{`{"fence":1,"until":{"at_ms":1},"visit":-1}`, invalid, "visit"},
		{`{"fence":1,"until":{"at_ms":1},"visit":1000001}`, invalid, "visit"},
		{`{"fence":1,"until":{"in_ms":1}}`, unknown, "until.in_ms"},
		{`{"fence":1,"until":{"at_ms":1},"claim":{"worker":"w"}}`, invalid, "claim.workflows"},
	},
	"POST /v1/runs:complete": {
		{`{}`, invalid, "runs"},
		{`{"runs":[{"run_id":"RUN","fence":1},{"run_id":"RUN"}]}`, invalid, "runs[1].fence"},
		{`{"runs":[{"run_id":"x","fence":1}]}`, invalid, "runs[0].run_id"},
		{`{"runs":[{"run_id":"RUN","fence":1,"claim":{}}]}`, unknown, "runs[0].claim"},
		{`{"runs":[{"run_id":"RUN","fence":1}],"claim":{}}`, invalid, "claim.worker"},
		{`{"runs":null}`, invalid, "runs"},
	},
	"POST /v1/runs:batch": {
		{`{"run":[]}`, unknown, "run"},
		{`{"runs":[7]}`, invalid, "runs[0]"},
		{`{"runs":"x"}`, invalid, "runs"},
	},
	"POST /v1/runs/RUN/cancel": {
		{`{"reason":7}`, invalid, "reason"},
		{`{"reason":"` + long[:1025] + `"}`, invalid, "reason"},
		{`{"why":"x"}`, unknown, "why"},
	},
	"POST /v1/runs/RUN/terminate": {{`{"why":"x"}`, unknown, "why"}},
	"POST /v1/runs/RUN/steps": {
		{`{"steps":[{"name":"s"}]}`, invalid, "fence"},
		{`{"fence":1}`, invalid, "steps"},
		{`{"fence":1,"steps":[],"signals":[],"state":null}`, invalid, "steps"},
		{`{"fence":1,"steps":{}}`, invalid, "steps"},
		{`{"fence":1,"steps":["s"]}`, invalid, "steps[0]"},
		{`{"fence":1,"steps":[{"name":"s"},{"name":""}]}`, invalid, "steps[1].name"},
		{`{"fence":1,"steps":[{"name":"` + long[:129] + `"}]}`, invalid, "steps[0].name"},
		{`{"fence":1,"steps":[{"name":"s","visit":"1"}]}`, invalid, "steps[0].visit"},
		{`{"fence":1,"steps":[{"name":"s","visit":-1}]}`, invalid, "steps[0].visit"},
		{`{"fence":1,"steps":[{"name":"s","visit":1000001}]}`, invalid, "steps[0].visit"},
		{`{"fence":1,"steps":[{"name":"s","seq":1}]}`, invalid, "steps[0].seq"},
		{`{"fence":1,"steps":[{"name":"s","result":1,"error":{"type":"T"}}]}`, invalid, "steps[0].error"},
		{`{"fence":1,"steps":[{"name":"s","error":{"message":"m"}}]}`, invalid, "steps[0].error.type"},
		{`{"fence":1,"steps":[{"name":"s","error":{"type":""}}]}`, invalid, "steps[0].error.type"},
		{`{"fence":1,"steps":[{"name":"s","error":{"type":"T","message":"` + long[:flow.MaxErrorMessageBytes+1] + `"}}]}`, invalid, "steps[0].error.message"},
		{`{"fence":1,"steps":[{"name":"s","error":{"type":"T","stack":"x"}}]}`, unknown, "steps[0].error.stack"},
		{`{"fence":1,"steps":[{"name":"s","cost_units":-1}]}`, invalid, "steps[0].cost_units"},
		{`{"fence":1,"steps":[{"name":"s","cost_units":1.5}]}`, invalid, "steps[0].cost_units"},
		{`{"fence":1,"steps":[{"name":"s","cost":1}]}`, unknown, "steps[0].cost"},
		{`{"fence":1,"signals":[{"name":"","visit":1}]}`, invalid, "signals[0].name"},
		{`{"fence":1,"signals":[{"name":"s","visit":-1}]}`, invalid, "signals[0].visit"},
		{`{"fence":1,"signals":[{"name":"s","visit":1,"payload":1}]}`, unknown, "signals[0].payload"},
		{`{"fence":1,"state":[]}`, invalid, "state"},
		{`{"fence":1,"state":{},"claim":{"worker":"w"}}`, invalid, "claim.workflows"},
		{`{"fence":1,"step":[{"name":"s"}]}`, unknown, "step"},
	},
	"POST /v1/runs/RUN/children": {
		{`{"runs":[{"workflow":"x"}]}`, invalid, "fence"},
		{`{"fence":1,"kind":"twin","runs":[{"workflow":"x"}]}`, invalid, "kind"},
		{`{"fence":1,"kind":1,"runs":[{"workflow":"x"}]}`, invalid, "kind"},
		{`{"fence":1,"step":"a\u0000","runs":[{"workflow":"x"}]}`, invalid, "step"},
		{`{"fence":1,"visit":-1,"runs":[{"workflow":"x"}]}`, invalid, "visit"},
		{`{"fence":1,"runs":{}}`, invalid, "runs"},
		{`{"fence":1,"runs":[{"workflow":"x"},{}]}`, invalid, "runs[1].workflow"},
		{`{"fence":1,"runs":[{"workflow":"v1"}]}`, invalid, "runs[0].workflow"},
		{`{"fence":1,"runs":[{"workflow":"x","params":[]}]}`, invalid, "runs[0].params"},
		{`{"fence":1,"runs":[{"workflow":"x","idempotency_key":""}]}`, invalid, "runs[0].idempotency_key"},
		{`{"fence":1,"runs":[{"workflow":"x","stamp":{"keys":{"rate":1}}}]}`, invalid, "runs[0].stamp.keys.rate"},
		{`{"fence":1,"runs":[{"workflow":"x","trigger":"case"}]}`, unknown, "runs[0].trigger"},
		{`{"fence":1,"runs":[{"workflow":"x"}],"claim":{"worker":"w"}}`, invalid, "claim.workflows"},
	},
	"POST /v1/runs/RUN/retry": {
		{`{"request_id":7}`, invalid, "request_id"},
		{`{"request_id":"` + long[:65] + `"}`, invalid, "request_id"},
		{`{"id":"x"}`, unknown, "id"},
	},
	"POST /v1/resolutions": {
		{`{"runs":[{"run_id":"RUN","gates_hash":"h","problem":"p"}]}`, invalid, "worker"},
		{`{"worker":"w"}`, invalid, "runs"},
		{`{"worker":"w","runs":[]}`, invalid, "runs"},
		{`{"worker":"w","runs":[{"run_id":"x","gates_hash":"h","problem":"p"}]}`, invalid, "runs[0].run_id"},
		{`{"worker":"w","runs":[{"run_id":"RUN","problem":"p"}]}`, invalid, "runs[0].gates_hash"},
		{`{"worker":"w","runs":[{"run_id":"RUN","gates_hash":"` + long[:129] + `","problem":"p"}]}`, invalid, "runs[0].gates_hash"},
		{`{"worker":"w","runs":[{"run_id":"RUN","gates_hash":"h","version":"a\u0000","problem":"p"}]}`, invalid, "runs[0].version"},
		{`{"worker":"w","runs":[{"run_id":"RUN","gates_hash":"h"}]}`, invalid, "runs[0].keys"},
		{`{"worker":"w","runs":[{"run_id":"RUN","gates_hash":"h","keys":{},"problem":"p"}]}`, invalid, "runs[0].keys"},
		{`{"worker":"w","runs":[{"run_id":"RUN","gates_hash":"h","keys":{"limit":"` + long[:1025] + `"}}]}`, invalid, "runs[0].keys.limit"},
		{`{"worker":"w","runs":[{"run_id":"RUN","gates_hash":"h","keys":{"lim":"x"}}]}`, unknown, "runs[0].keys.lim"},
		{`{"worker":"w","runs":[{"run_id":"RUN","gates_hash":"h","problem":"` + long[:flow.MaxErrorMessageBytes+1] + `"}]}`, invalid, "runs[0].problem"},
	},
	"POST /v1/schedules": {
		{`{"name":"a\u0000","workflow":"x","at_ms":1}`, invalid, "name"},
		{`{"name":"s","workflow":"x","at_ms":1,"every":1}`, unknown, "every"},
	},
	"PUT /v1/schedules/s": {
		{`{"name":"t","workflow":"x","at_ms":1}`, invalid, "name"},
		{`{"workflow":"v1","at_ms":1}`, invalid, "workflow"},
		{`{"workflow":"x","at_ms":1,"params":[]}`, invalid, "params"},
		{`{"workflow":"x"}`, invalid, "cron"},
		{`{"workflow":"x","cron":"* * * * *","at_ms":1}`, invalid, "cron"},
		{`{"workflow":"x","cron":7}`, invalid, "cron"},
		{`{"workflow":"x","at_ms":1,"time_zone":"UTC"}`, invalid, "time_zone"},
		{`{"workflow":"x","cron":"* * * * *","time_zone":"Mars/Base"}`, invalid, "time_zone"},
		{`{"workflow":"x","every_seconds":0}`, invalid, "every_seconds"},
		{`{"workflow":"x","every_seconds":"5m"}`, invalid, "every_seconds"},
		{`{"workflow":"x","at_ms":0}`, invalid, "at_ms"},
		{`{"workflow":"x","at_ms":"2026-01-01T00:00:00Z"}`, invalid, "at_ms"},
		{`{"workflow":"x","at_ms":1,"start_ms":1}`, invalid, "start_ms"},
		{`{"workflow":"x","every_seconds":1,"start_ms":0}`, invalid, "start_ms"},
		{`{"workflow":"x","at_ms":1,"catch_up":"some"}`, invalid, "catch_up"},
		{`{"workflow":"x","at_ms":1,"paused":"yes"}`, invalid, "paused"},
	},
	"POST /v1/workflows/w/events": {{`[]`, invalid, "body"}, {`null`, invalid, "body"}, {`"x"`, invalid, "body"}, {`1`, invalid, "body"}},
	"POST /w":                     {{`[]`, invalid, "body"}, {`"x"`, invalid, "body"}, {`1`, invalid, "body"}},
}

func TestR24Refusals(t *testing.T) {
	for route, all := range shapeRefusals {
		method, path, _ := strings.Cut(route, " ")
		for _, c := range all {
			a := newAPI(t)
			g := a.hold("other")
			body := strings.ReplaceAll(c.body, "RUN", g.RunID)
			w := a.send(method, strings.ReplaceAll(path, "RUN", g.RunID), body)
			p := w.refused(c.code, c.field)
			want := 422
			if c.code == config {
				want = 400
			}
			if w.Code != want || !strings.Contains(p.Detail, c.field) {
				t.Errorf("%s %.100s answers %d: %s, want %d and the field in the detail", route, body, w.Code, p.Detail, want)
			}
			if len(a.node.runs) != 1 || len(a.node.workflows) != 0 || len(a.node.schedules) != 0 || a.node.held(t, g.RunID).Status != "executing" {
				t.Errorf("%s %.100s changed something", route, body)
			}
		}
	}
}

// TestMalformed goes through every path that takes a body.
func TestMalformed(t *testing.T) {
	for route := range shapeRefusals {
		method, path, _ := strings.Cut(route, " ")
		a := newAPI(t)
		id := a.submit("other")
		path = strings.ReplaceAll(path, "RUN", id)
		for body, offset := range map[string]int{
			" ": 1, "{": 1, `{"`: 2, "{}x": 2, "{}{}": 2, "\"x": 2, "{\"a\"": 4, "nul": 0, "tru": 0, "-": 1, "[1,]": 3, "{,}": 1, "{1:2}": 1, "\xef\xbb\xbf{}": 0,
			"{}\x00": 2, "\xff": 0, "{} \xff": 3, "\"\x01\"": 1, "\"a\x1f\"": 2, `"\x"`: 2, `"\u12"`: 5, "+1": 0, ".5": 0, "'a'": 0, "NaN": 0, "[1 2]": 3, "// {}": 0,
		} {
			p := a.send(method, path, body).refused(wire.CodeMalformed, "")
			if p.Status != 400 || !strings.HasSuffix(p.Detail, fmt.Sprintf("offset %d", offset)) {
				t.Errorf("%s %q answers %d %q, want 400 and offset %d", route, body, p.Status, p.Detail, offset)
			}
		}
		if strings.HasSuffix(path, "/cancel") || strings.HasSuffix(path, "/terminate") || strings.HasSuffix(path, "/retry") {
			continue
		}
		if p := a.send(method, path, "").refused(wire.CodeMalformed, ""); p.Status != 400 || !strings.Contains(p.Detail, "required") {
			t.Errorf("%s without a body answers %d %q, want 400", route, p.Status, p.Detail)
		}
	}
}

// A value at the bound is legal.
func TestBoundsAreLegal(t *testing.T) {
	a := newAPI(t)
	big := `"` + strings.Repeat("x", flow.MaxPayloadBytes-len(`{"p":""}`)) + `"`
	for _, body := range []string{
		`{"idempotency_key":"` + long[:256] + `"}`,
		`{"request_id":"` + long[:64] + `","trigger":"eval"}`,
		`{"stamp":{"version":"` + long[:128] + `","keys":{"limit":"` + long[:1024] + `","rate":""}}}`,
		`{"params":{"p":` + big + `}}`,
		`{"params":{"p":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}}`,
	} {
		a.send("POST", "/v1/workflows/w/runs", body).ok(202, nil)
	}
	a.send("POST", "/v1/workflows/w/runs", `{"params":{"pp":`+big+`}}`).refused(invalid, "params")
	a.send("POST", "/v1/workflows/w/runs", `{"params":{"p":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+`}}`).refused(invalid, "params")
	a.send("POST", "/"+long[:128], `{}`).ok(202, nil)
	a.send("POST", "/"+long[:129], `{}`).refused(wire.CodeUnknownWorkflow, "name")
	a.send("PUT", "/v1/workflows/w", `{"limit":{"key":"k","max":1000000000},"max_attempts":1000000,"retry_backoff_seconds":0,"lease_seconds":86400,
		"rate":{"key":"k","per_second":1e9,"burst":1000000000}}`).ok(200, nil)
	var names []string
	for i := range 256 {
		names = append(names, fmt.Sprintf(`{"name":"w%d"}`, i))
	}
	workflows := strings.Join(names, ",")
	a.send("POST", "/v1/claims", `{"worker":"`+long[:128]+`","workflows":[`+workflows+`],"credit":256}`).ok(200, nil)
	g := a.hold("v")
	a.send("POST", "/v1/runs/"+g.RunID+"/fail", fmt.Sprintf(`{"fence":%d,"error":{"type":%q,"message":%q}}`, g.Fence, long[:256], long[:flow.MaxErrorMessageBytes])).ok(200, nil)
	a.send("POST", "/v1/runs/"+g.RunID+"/cancel", `{"reason":"`+long[:1024]+`"}`).ok(200, nil)
	beats := strings.Repeat(`{"run_id":"`+g.RunID+`","fence":18446744073709551615},`, 255) + `{"run_id":"` + g.RunID + `","fence":1}`
	a.send("POST", "/v1/heartbeats", `{"worker":"w","runs":[`+beats+`]}`).ok(200, nil)
}
