package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"
)

// sqlKernels are what neighbour sql asks about, sqlWays how many questions it has under way: more than one tenant may have answered at
// once, so that there is always the next.
const (
	sqlKernels = 2_000_000
	sqlWays    = 8
	quietAsks  = 500 * time.Millisecond // the quiet tenant meanwhile, after its last answer
)

// heaviest are questions that take what a tenant may have: memory for groups and joins, threads, and time.
var heaviest = []string{
	"SELECT kernel, stream_id, quantileExact(0.99)(duration_ns) AS p99, uniqExact(corr_id) FROM kernels GROUP BY kernel, stream_id " +
		"ORDER BY p99 DESC FORMAT Null",
	"SELECT session_id, corr_id, started_at, any(kernel), sum(duration_ns) AS ns FROM kernels GROUP BY session_id, corr_id, started_at " +
		"ORDER BY ns DESC LIMIT 1000 FORMAT Null",
	"SELECT a.kernel, count(), sum(b.duration_ns) FROM kernels AS a INNER JOIN kernels AS b ON a.session_id = b.session_id AND " +
		"a.corr_id = b.corr_id GROUP BY a.kernel FORMAT Null",
	"SELECT * FROM kernels ORDER BY duration_ns DESC, corr_id FORMAT Null",
}

// sqlBefore stores what is asked about.
func sqlBefore(ctx context.Context, n *noise) error {
	if err := n.sender.send(ctx, n.data); err != nil {
		return err
	}
	n.sender.connect()
	for began := time.Now(); ; {
		got, err := n.svc.Read.numbers(ctx, "SELECT count() FROM kernels_data WHERE tenant = '"+n.name+"'")
		if err != nil {
			return err
		}
		if got[0] == n.data.Counts.Kernels {
			return nil
		}
		if time.Since(began) > settled {
			return fmt.Errorf("SQL counts %d kernels, %d were sent", got[0], n.data.Counts.Kernels)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// sql asks the heaviest questions through the gateway's door, as the tenant, as many at once as are answered.
func sql(ctx context.Context, n *noise) error {
	door := SQL{Addr: n.svc.URL + "/clickhouse", User: n.name, Password: n.read}
	var next, done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range sqlWays {
		g.Go(func() error {
			for ctx.Err() == nil {
				question := heaviest[int(next.Add(1))%len(heaviest)]
				resp, err := door.post(ctx, question)
				if err != nil {
					return nil // it ended
				}
				said, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
				resp.Body.Close()
				switch resp.StatusCode {
				case http.StatusInternalServerError:
					return fmt.Errorf("a tenant's heavy question is answered with 500, as if the service were broken: %s: %s", question, said)
				case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
					return errors.New("a tenant's question is wrong: " + resp.Status + ": " + question)
				case http.StatusOK:
					done.Add(1)
				}
				n.answered(resp.StatusCode)
			}
			return nil
		})
	}
	var light, slowest atomic.Int64
	g.Go(func() error {
		quiet := SQL{Addr: door.Addr, User: "quiet", Password: n.quietRead}
		for ctx.Err() == nil {
			began := time.Now()
			resp, err := quiet.post(ctx, "SELECT kernel, sum(calls) AS n FROM kernel_stats GROUP BY kernel ORDER BY n DESC LIMIT 10")
			if err != nil {
				return nil // it ended
			}
			said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			resp.Body.Close()
			if ctx.Err() != nil {
				return nil
			}
			if err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("a question of the quiet tenant failed: %s: %.300s %w", resp.Status, said, err)
			}
			light.Add(1)
			slowest.Store(max(slowest.Load(), int64(time.Since(began))))
			if pause(ctx, quietAsks) != nil {
				return nil
			}
		}
		return nil
	})
	err := g.Wait()
	n.said = fmt.Sprintf("%d questions about %s kernels were answered, as many at once as a tenant may ask; all %d of the quiet tenant "+
		"were, the slowest in %v", done.Load(), humanize.Comma(n.data.Counts.Kernels), light.Load(),
		time.Duration(slowest.Load()).Round(time.Millisecond))
	return err
}
