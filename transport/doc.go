// Package transport is the HTTP/JSON face of a node: it turns requests into calls
// of a Node, and what the Node answers into responses.
//
// # Invariant
//
// A request either reaches the Node whole and checked, or not at all: syntax,
// unknown fields and bounds of a body, also of every entry of a batch, are settled
// before the first call. Every refusal is a problem document whose code stands in
// the table of problem.go. A response is sent only after the Node has answered, and
// the Node answers only what is durable.
//
// # The pieces
//
//	server.go    one Server: what comes before a route (bounds, hosts, origins) and the end
//	route.go     the table of routes; paths are matched segment by segment, never cleaned
//	exchange.go  one request and its one response, in reused buffers
//	reader.go    a strict reader of JSON that names the field it refuses
//	append.go    writers of the responses that must be fast
//	event.go     events: one or many, in five forms; cloudevent.go has three of them
//	problem.go   the table of problems
//	metrics.go   what Prometheus sees
//	openapi.json the API for programs; tests hold it to the code
//
// # What this package must not know
//
// Keys, gates, shards and journals: it knows the words of flow/wire and the
// interface Node, and decides nothing about a run. It opens no file and reads no
// environment.
package transport
