package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// ClickHouse is a ClickHouse and who we are there. Its methods may be called by several goroutines at once.
type ClickHouse struct {
	Native, HTTP string // addresses of its two protocols, as host:port
	User         string
	Password     string
	PasswordFile string // where Password is kept; "" for nowhere
	Database     string // that of Warpline's tables
	TLS          bool
}

func (s ClickHouse) tls() *tls.Config {
	if !s.TLS {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// Open connects with the native protocol, in no particular database: all our own SQL names it. Queries of a user who may run only so many
// at once wait for their turn. The caller closes the connection. The error is an Unreachable if nobody answers.
func (s ClickHouse) Open(ctx context.Context) (driver.Conn, error) {
	return s.OpenIn(ctx, "default")
}

// wrongPassword is ClickHouse's number for that.
const wrongPassword = 516 // AUTHENTICATION_FAILED

// OpenIn is Open with database as the one that SQL means where it names none.
func (s ClickHouse) OpenIn(ctx context.Context, database string) (driver.Conn, error) {
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{s.Native}, TLS: s.tls(), DialTimeout: 3 * time.Second,
		Auth: clickhouse.Auth{Database: database, Username: s.User, Password: s.Password},
	})
	if err != nil {
		return nil, fmt.Errorf("clickhouse at %s: %w", s.Native, err)
	}
	if err := conn.Ping(ctx); err != nil {
		conn.Close()
		if said := (*clickhouse.Exception)(nil); errors.As(err, &said) && said.Code == wrongPassword {
			return nil, Unreachable{fmt.Errorf("clickhouse at %s: user %q or its password is wrong: look at --clickhouse-user and "+
				"--clickhouse-password-file: %w", s.Native, s.User, err)}
		}
		return nil, Unreachable{fmt.Errorf("clickhouse at %s: %w: is it running, and is this its native port?", s.Native, err)}
	}
	return patient{conn}, nil
}

// Replayer connects as a user who may write, to repair rows. The caller closes its Conn.
func (s ClickHouse) Replayer(ctx context.Context, streams *broker.Streams, schema *table.Schema) (sink.Replayer, error) {
	conn, err := s.OpenIn(ctx, s.Database)
	r := sink.Replayer{Streams: streams, Conn: conn, URL: "http://" + s.HTTP, User: s.User, Password: s.Password, Schema: schema,
		Database: s.Database}
	if s.TLS {
		r.URL = "https://" + s.HTTP
	}
	return r, err
}

func (s ClickHouse) sinkConfig(schema *table.Schema) sink.Config {
	return sink.Config{
		HTTPAddr: s.HTTP, NativeAddr: s.Native, Database: s.Database, User: s.User, Password: s.Password, TLS: s.TLS, Schema: schema,
	}
}
