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
	err := g.Wait()
	n.said = fmt.Sprintf("%d questions about %s kernels were answered, as many at once as a tenant may ask", done.Load(),
		humanize.Comma(n.data.Counts.Kernels))
	return err
}
