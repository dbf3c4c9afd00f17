package tenant

import "fmt"

// Scope is what a key opens. The zero value is ScopeIngest, which every key of before there were scopes has.
type Scope string

// The scopes. ScopeOperator belongs to no tenant: it opens what ScopeRead and ScopeAdmin open, of every tenant, but stores nothing.
const (
	ScopeIngest   Scope = ""
	ScopeRead     Scope = "read"
	ScopeAdmin    Scope = "admin"
	ScopeOperator Scope = "operator"
)

// ParseScope returns the scope that a person means: ingest, read, admin or operator.
func ParseScope(text string) (Scope, error) {
	switch s := Scope(text); s {
	case "ingest":
		return ScopeIngest, nil
	case ScopeRead, ScopeAdmin, ScopeOperator:
		return s, nil
	}
	return "", fmt.Errorf("scope %q: use ingest, read or admin", text)
}

// String is the scope as people write it.
func (s Scope) String() string {
	if s == ScopeIngest {
		return "ingest"
	}
	return string(s)
}

// Check returns an error when no key may be like k: of an unknown scope, an operator's with a tenant, or another's without one.
func (k *Key) Check() error {
	switch k.Scope {
	case ScopeIngest, ScopeRead, ScopeAdmin:
		return CheckName(k.Tenant)
	case ScopeOperator:
		if k.Tenant != "" {
			return fmt.Errorf("an operator's key belongs to no tenant, and this one to %q", k.Tenant)
		}
		return nil
	}
	return fmt.Errorf("scope %q is unknown here: is the key of a later version?", string(k.Scope))
}

// Opens reports whether the key opens a door of a scope to what a tenant has. A door is opened by its own scope alone, of the same tenant,
// and those of ScopeRead and ScopeAdmin by an operator's key.
func (k *Key) Opens(door Scope, tenant string) bool {
	if k.Scope == ScopeOperator {
		return door == ScopeRead || door == ScopeAdmin || door == ScopeOperator
	}
	return k.Scope == door && k.Tenant == tenant
}

// MayMake reports whether whoever has the key may make another: an operator any, an administrator those of its tenant, nobody else one.
func (k *Key) MayMake(other Key) bool {
	return k.Scope == ScopeOperator || k.Scope == ScopeAdmin && other.Scope != ScopeOperator && other.Tenant == k.Tenant
}
