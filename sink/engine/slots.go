package engine

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Slots are pairs of users through which tenants read: ClickHouse reads its users at the engine's start alone, so they are made before
// anybody knows for whom. A slot is lent to a tenant by a row in a table (see package query/tenantsql). The first of a pair asks: it may
// read one database of views and nothing else. The second, with which nobody can log in, owns these views: what they read is filtered by
// tenant before any expression of the question sees it.
type Slots struct {
	Count int // 0: none
	// Database has what tenants read. Table there says which slot is lent to which tenant, in columns slot and tenant.
	Database, Table string
	// Filtered are its tables, which have a column tenant. Open are its views, and what is the same for everybody. What is in neither list
	// is closed to tenants, also what a later version adds.
	Filtered, Open []string
}

// SlotSecret is the file in Config.Secrets that the passwords of slots are made from, mode 0600.
const SlotSecret = "slots-secret"

// SlotName is the name of a slot, from 1 on: of its user and of its database.
func SlotName(slot int) string { return fmt.Sprint("slot", slot) }

// SlotOwner is the user that owns the views of a slot.
func SlotOwner(slot int) string { return SlotName(slot) + "_rows" }

// slotPassword is the password of a slot's user.
func slotPassword(secret string, slot int) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(SlotName(slot)))
	return hex.EncodeToString(mac.Sum(nil))
}

// slotUser is a pair in the users file.
type slotUser struct {
	Name, Owner, SHA256, Grants string
	OwnerSHA256                 string // of a password that nobody knows; and it may not log in from anywhere
	Filters                     []slotFilter
}

type slotFilter struct{ Table, Condition string }

func (cfg Config) slotUsers() []slotUser {
	var all []slotUser
	var grants []string
	db := quotedDatabase(cfg.Slots.Database)
	for _, names := range [][]string{cfg.Slots.Filtered, cfg.Slots.Open, {cfg.Slots.Table}} {
		for _, name := range names {
			grants = append(grants, fmt.Sprintf("SELECT ON %s.%s", db, quotedDatabase(name)))
		}
	}
	for i := range cfg.Slots.Count {
		u := slotUser{Name: SlotName(i + 1), Owner: SlotOwner(i + 1), SHA256: sha256Hex(slotPassword(cfg.slotSecret, i+1)),
			OwnerSHA256: sha256Hex(rand.Text()), Grants: "GRANT " + strings.Join(grants, ", ")}
		mine := fmt.Sprintf("slot = '%s'", u.Name)
		for _, table := range cfg.Slots.Filtered {
			u.Filters = append(u.Filters, slotFilter{table, fmt.Sprintf("tenant IN (SELECT tenant FROM %s.%s WHERE %s)", db,
				quotedDatabase(cfg.Slots.Table), mine)})
		}
		u.Filters = append(u.Filters, slotFilter{cfg.Slots.Table, mine})
		all = append(all, u)
	}
	return all
}

// SlotQuestions is how many questions of all tenants may be let through at once: what they and the reader may take is ClickHouse's memory
// then, beside which there is connectionRoom for the writer.
const SlotQuestions = 6

// What questions of one tenant get.
const (
	slotMemory  = 10 // percent of the engine's memory, of one question and of all of a tenant's together twice as much
	slotSeconds = 30
	// slotConcurrent is twice what the door lets through: a question whose client has left may not have ended when the next comes.
	slotConcurrent  = 8
	slotResultRows  = 10_000_000
	slotResultBytes = 1 << 30
	slotReadRows    = 2_000_000_000
)

// slotBounds are the numbers in the profile of slots.
type slotBounds struct {
	Threads, Seconds                              int
	Memory, UserMemory, Spill, Disk               int64
	ResultRows, ResultBytes, ReadRows, Concurrent int64
}

func boundsOfSlots(memoryLimit int64) slotBounds {
	one := memoryLimit / 100 * slotMemory
	r := readerBounds(memoryLimit)
	return slotBounds{Threads: r.Threads, Seconds: slotSeconds,
		Memory: one, UserMemory: 2 * one, Spill: one / 2, Disk: readerDisk / 4,
		ResultRows: slotResultRows, ResultBytes: slotResultBytes, ReadRows: slotReadRows, Concurrent: slotConcurrent}
}
