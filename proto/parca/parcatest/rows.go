package parcatest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/warpline/warpline/proto/parca"
)

// Rows reads the rows of an .ndjson file, one a line.
func Rows(ndjson []byte) ([]parca.WireRow, error) {
	d := json.NewDecoder(bytes.NewReader(ndjson))
	d.DisallowUnknownFields()
	var rows []parca.WireRow
	for {
		var r parca.WireRow
		err := d.Decode(&r)
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", len(rows)+1, err)
		}
		rows = append(rows, r)
	}
}
