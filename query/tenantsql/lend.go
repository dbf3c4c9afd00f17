package tenantsql

import (
	"context"

	"github.com/warpline/warpline/sink/engine"
)

// login is who a question is asked as: a user of ClickHouse that sees one tenant's rows, and the database of its views.
type login struct{ user, password, database string }

// lender says as whom a tenant asks. It is safe for concurrent use.
type lender interface {
	// take returns who asks for a tenant; give must be called when the question has ended.
	take(ctx context.Context, tenant string) (as login, give func(), err error)
	// lent is how many tenants have somebody of the few that there are.
	lent() int
}

// slotLender lends the slots of an embedded engine.
type slotLender struct {
	*slots
	password func(slot int) string
}

func (l slotLender) take(ctx context.Context, tenant string) (login, func(), error) {
	slot, err := l.slots.take(ctx, tenant)
	if err != nil {
		return login{}, nil, err
	}
	name := engine.SlotName(slot)
	return login{name, l.password(slot), name}, func() { l.give(slot) }, nil
}

// ownUsers asks for each tenant as the user that Users.Make has made for it on a server. It holds nothing and needs no right of its own.
type ownUsers struct{ secret string }

func (l ownUsers) take(_ context.Context, tenant string) (login, func(), error) {
	return login{WebUserName(tenant), WebPassword(l.secret, tenant), UserName(tenant)}, func() {}, nil
}

func (ownUsers) lent() int { return 0 }
