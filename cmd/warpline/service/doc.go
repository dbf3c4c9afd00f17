// Package service runs Warpline: all roles in one process on a data folder (Start, Stack), or one role as a process of its own (Apart). It
// also leads commands to a service that runs (Connect, ReaderOf, GatewayOf).
//
//   - A Stack starts the engine, NATS, sink, worker and gateway, in this order, and stops them in the other.
//   - The data folder (DataDir) is held by one process; warpline.json in it says where that one listens.
//   - A watcher looks at what runs every second. What is wrong is a line in the log when it begins and one when it ends, a gauge, and,
//     where data does not flow, the end of readiness.
//
// The package is given its sources and knows none. It speaks by its logger and by errors, which name a setting as the flag of the command
// that sets it.
package service
