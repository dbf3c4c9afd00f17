// Package parcatest makes what Parca's agent sends, for tests and for the bench: batches of rows in every encoding (Arrow v2 and v1,
// offline files, OTLP profiles), and a [Client] that talks to a gateway and retries as the agent does. It decodes nothing, so that a
// mistake in Warpline's decoders is not made twice.
package parcatest
