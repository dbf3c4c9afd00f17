package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// Unowned are messages of INGEST or ROWS on a subject that is not a partition's: they are not read and not deleted. Streams do not take
// such messages any more, but a stream of an earlier version may hold some.
type Unowned struct {
	Stream, Subject string
	Messages        uint64
}

// FindUnowned lists them, nil when there are none. It is cheap when there are none.
func (s *Streams) FindUnowned(ctx context.Context) (found []Unowned, err error) {
	for _, st := range s.stores() {
		if len(st.subjects) == 0 {
			continue
		}
		js, err := s.JS.Stream(ctx, st.name)
		if err != nil {
			return found, fmt.Errorf("stream %s: %w", st.name, err)
		}
		all := js.CachedInfo().State.Msgs
		if all == 0 {
			continue
		}
		c, err := js.CreateConsumer(ctx, jetstream.ConsumerConfig{FilterSubjects: st.subjects, DeliverPolicy: jetstream.DeliverAllPolicy,
			AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: 10 * time.Second, HeadersOnly: true})
		if err != nil {
			return found, fmt.Errorf("count the owned messages of %s: %w", st.name, err)
		}
		owned := c.CachedInfo().NumPending
		js.DeleteConsumer(ctx, c.CachedInfo().Name)
		if all <= owned {
			continue
		}
		// Or some were purged between the two looks: the list of subjects shows which.
		info, err := js.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err != nil {
			return found, fmt.Errorf("list the subjects of %s: %w", st.name, err)
		}
		for subject, n := range info.State.Subjects {
			if !s.owned(subject) {
				found = append(found, Unowned{st.name, subject, n})
			}
		}
	}
	return found, nil
}

// owned reports whether a subject is of one of the partitions.
func (s *Streams) owned(subject string) bool {
	p := stream.PartitionOfRows(subject)
	if rest, ok := strings.CutPrefix(subject, "ingest."); ok {
		token, _, _ := strings.Cut(rest, ".")
		n, err := strconv.Atoi(token)
		if err != nil {
			return false
		}
		p = n
	}
	return p >= 0 && p < s.Partitions
}
