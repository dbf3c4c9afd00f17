// Package tenantsql lets tenants ask ClickHouse with their own tools: a door that speaks ClickHouse's HTTP interface, where the user is a
// tenant and the password a key of scope read.
//
// No question is parsed, and none is rewritten. Each runs as one of the engine's slots (engine.Slots), a user that sees a database of views
// and nothing else, or on a ClickHouse server as a user of the tenant's own (Users). What the views read is filtered by tenant by
// ClickHouse itself, before any expression of the question sees a row.
package tenantsql
