package admin

import (
	"github.com/warpline/warpline/proto/tenant"
)

// What comes and goes of tenants.
type (
	tenantList struct {
		Tenants []tenantShown `json:"tenants"`
		Next    string        `json:"next,omitempty"` // to go on with ?after=
	}
	tenantShown struct {
		RecordShown
		ValidKeys int `json:"valid_keys"`
	}
	tenantNew struct {
		Name string `json:"name"`
		Note string `json:"note"`
		askedLimits
	}
	tenantFields struct {
		Note string `json:"note"`
		askedLimits
	}
)

func show(t Tenant) tenantShown { return tenantShown{ShowRecord(t.Record), t.ValidKeys} }

func (c *call) listTenants() (any, error) {
	all, err := c.api.Desk.List(c.ctx, c.who)
	if err != nil {
		return nil, err
	}
	all, next, err := page(c, all, func(t *Tenant) string { return t.Name })
	shown := make([]tenantShown, len(all))
	for i := range all {
		shown[i] = show(all[i])
	}
	return tenantList{shown, next}, err
}

func (c *call) showTenant() (any, error) {
	t, _, err := c.api.Desk.Show(c.ctx, c.who, c.vars["tenant"])
	c.at(t.Revision)
	return show(t), err
}

func (c *call) createTenant() (any, error) {
	var in tenantNew
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	limits, err := in.of(tenant.Limits{})
	if err != nil {
		return nil, err
	}
	t, err := c.api.Desk.Create(c.ctx, c.who, in.Name, in.Note, limits)
	if err == nil {
		c.w.Header().Set("Location", Path+"tenants/"+t.Name)
	}
	return c.told(t, err)
}

func (c *call) changeTenant() (any, error) {
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	t, err := c.api.Desk.Change(c.ctx, c.who, c.vars["tenant"], at, func(r *tenant.Record) error {
		in := tenantFields{r.Note, asked(r.Limits)}
		if err := decode(c.body, &in); err != nil {
			return err
		}
		r.Note = in.Note
		r.Limits, err = in.of(r.Limits)
		return err
	})
	return c.told(t, err)
}

func (c *call) disableTenant() (any, error) {
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	t, err := c.api.Desk.Disable(c.ctx, c.who, c.vars["tenant"], at)
	return c.told(t, err)
}

func (c *call) enableTenant() (any, error) {
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	t, err := c.api.Desk.Enable(c.ctx, c.who, c.vars["tenant"], at)
	return c.told(t, err)
}

// told is a tenant that was changed, as it is shown.
func (c *call) told(t Tenant, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	shown, _, err := c.api.Desk.Show(c.ctx, c.who, t.Name)
	if err != nil {
		return nil, err
	}
	t.ValidKeys = shown.ValidKeys
	c.at(t.Revision)
	return show(t), nil
}

func (c *call) deleteTenant() (any, error) {
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	return nil, c.api.Desk.Delete(c.ctx, c.who, c.vars["tenant"], at)
}
