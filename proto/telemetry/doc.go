// Package telemetry reads GPU memory telemetry: TelemetryEvent records of schema versions 2 to 4 as stormlog (once gpu-memory-profiler)
// exports them, and the shapes that its trackers wrote before there was a schema. What is accepted becomes version 4.
//
// A record is accepted or refused by the rules of the peer, stormlog 0.4.3 or by [Options] an older one, in the peer's order and with
// the peer's words, and a reason code stands beside the words. Where Warpline differs on purpose, [Divergences] says so. Validator is the
// rules for one record, Decoder walks a document and gives one record at a time, so that a bad one never costs its neighbours; Survey tells
// first whether a document can be read as events at all. Nothing here does I/O of its own.
//
// Integers are tokens: 2 is one and 2.0 is not. Keys are compared letter by letter. Of a key that stands twice the last counts.
package telemetry
