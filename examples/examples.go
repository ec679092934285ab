// Package examples holds the data that the demonstration runs on, so that the
// program carries it along. The programs below it show the SDK.
//
// It must stay data: nothing here is used by a node.
package examples

import _ "embed" // for the file below

//go:generate sh -c "go run ./generate >sync_accounts.ndjson"

//go:embed sync_accounts.ndjson
var syncAccounts string

// SyncAccounts are the parameters of runs of a workflow sync_account, one JSON
// object a line, in the order in which they are submitted: 12 tenants, of which
// one has a third of the runs and most have few. The data is made up.
func SyncAccounts() string { return syncAccounts }
