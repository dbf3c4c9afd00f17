package telemetry

import "bytes"

// notes are the values of metadata that some rule looks at. The last metadata is remembered: many records of a process say the same.
type notes struct {
	text                                   []byte // its own copy, in which the tokens stand
	session, capabilities, backend, source token

	again   bool   // the text has come more than once
	spelled []byte // then: as AppendMetadata writes it
}

// read finds the values in the metadata of a record, an object that was scanned.
func (n *notes) read(metadata []byte) *notes {
	if len(n.text) > 0 && bytes.Equal(n.text, metadata) {
		n.again = true
		return n
	}
	if cap(n.text)+cap(n.spelled) > 1<<16 {
		n.text, n.spelled = nil, nil // one hostile record must not be remembered in memory
	}
	*n = notes{text: append(n.text[:0], metadata...), spelled: n.spelled[:0]}
	members(n.text, func(key []byte, escaped bool, t token) {
		if escaped {
			key = appendDecoded(nil, key)
		}
		switch string(key) {
		case "session_id":
			n.session = t
		case capabilitiesKey:
			n.capabilities = t
		case "backend":
			n.backend = t
		case "sampling_source":
			n.source = t
		}
	})
	return n
}

// spelling is the text as AppendMetadata writes it if it has come before, or nil: what comes once is spelled by who writes it.
func (n *notes) spelling() []byte {
	if n.again && len(n.spelled) == 0 {
		n.spelled = appendScanned(n.spelled, n.text)
	}
	if len(n.spelled) == 0 {
		return nil
	}
	return n.spelled
}
