package transport

import (
	_ "embed" // for the document
	"slices"
)

//go:embed openapi.json
var document []byte

// OpenAPI is the OpenAPI 3.1 document of the API, a copy for the caller.
func OpenAPI() []byte { return slices.Clone(document) }
