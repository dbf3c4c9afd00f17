package service

import (
	"context"
	"fmt"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// nameReader reads dictionaries that have expired from NATS back from ClickHouse. It connects when first asked. Safe for
// concurrent use.
type nameReader struct {
	server ClickHouse

	mu   sync.Mutex
	conn driver.Conn
}

// load calls name for every entry of a session's dictionaries.
func (n *nameReader) load(ctx context.Context, tenant, session string, name func(dict string, id uint32, value string)) error {
	n.mu.Lock()
	if n.conn == nil {
		conn, err := n.server.Open(ctx)
		if err != nil {
			n.mu.Unlock()
			return err
		}
		n.conn = conn
	}
	conn := n.conn
	n.mu.Unlock()
	rows, err := conn.Query(ctx, "SELECT toString(dict), id, value FROM `"+n.server.Database+
		"`.dictionaries WHERE tenant = ? AND session_id = ?", tenant, session)
	if err != nil {
		return fmt.Errorf("read dictionaries: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var dict, value string
		var id uint32
		if err := rows.Scan(&dict, &id, &value); err != nil {
			return fmt.Errorf("read dictionaries: %w", err)
		}
		name(dict, id, value)
	}
	return rows.Err()
}

func (n *nameReader) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn != nil {
		n.conn.Close()
	}
}
