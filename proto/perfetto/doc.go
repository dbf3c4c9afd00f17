// Package perfetto writes traces in Perfetto's protobuf (TrackEvent), as trace processor v58 and the viewer read them. Arrows stand on
// slices, so none is looked up by time. It writes what it is given and knows no format of others.
package perfetto
