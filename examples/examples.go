// Package examples holds the data that the demonstration and the programs below it run on,
// so that they carry it along. The programs show the SDK.
//
// It must stay data: nothing here is used by a node.
package examples

import _ "embed" // for the files below

//go:generate go run ./generate

//go:embed sync_accounts.ndjson
var syncAccounts string

//go:embed webhooks.ndjson
var webhooks string

// SyncAccounts are the parameters of runs of a workflow sync_account, one JSON
// object a line, in the order in which they are submitted: 12 tenants, of which
// one has a third of the runs and most have few. The data is made up.
func SyncAccounts() string { return syncAccounts }

// Webhooks are two hours of deliveries from a host of repositories, one JSON object a
// line, in the order in which they came: 25 repositories, of which three have nearly half of
// the traffic and some have an event or two. The data is made up.
func Webhooks() string { return webhooks }
