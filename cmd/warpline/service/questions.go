package service

import (
	"context"
	"net/http"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/tenantsql"
)

// questions is the door through which tenants ask the embedded ClickHouse, nil without slots. It stays closed on a kernel that cannot
// confine the engine: there a question could read this machine's files.
func (s *Stack) questions() http.Handler {
	if s.engine == nil || s.cfg.SQLTenants == 0 {
		return nil
	}
	e := s.engine.Engine()
	if why := e.Unconfined(); why != "" {
		s.cfg.Log.Warn("tenants cannot ask in SQL: this kernel cannot keep ClickHouse from the machine's files", "why", why)
		return nil
	}
	return tenantsql.New(tenantsql.Config{
		Authorize: func(ctx context.Context, secret, of string) error {
			if _, no := s.Gateway.Authorize(ctx, secret, tenant.ScopeRead, of); no != nil {
				return &tenantsql.Denied{Status: no.Status, Why: no.Detail}
			}
			return nil
		},
		Open: func(ctx context.Context) (driver.Conn, error) { return s.Server.Open(ctx) },
		HTTP: s.Server.HTTP, Password: e.SlotPassword, Slots: s.cfg.SQLTenants, Database: s.Server.Database, Schema: s.cfg.Sources.Schema,
		Logger: s.cfg.Log.With("role", "gateway"), Registerer: s.reg,
	})
}
