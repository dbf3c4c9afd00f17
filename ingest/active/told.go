package active

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/warpline/warpline/ingest/peers"
)

const (
	version = 1
	// tellEvery is how long a gateway gathers what it has to tell of a tenant; of a large set it waits as long as that takes at tellSpeed.
	tellEvery = 100 * time.Millisecond
	tellSpeed = 1 << 20 // bytes a second
)

// Tell implements peers.Told: sets are all the sessions that this gateway has seen of a tenant, when they changed, and now and then when
// they only go on.
func (s *Sessions) Tell(now time.Time) (all []peers.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.by {
		if now.Before(t.tellAt) || !t.changed && (len(t.own) == 0 || now.Sub(t.fresh) < refresh) {
			continue
		}
		value := t.encode()
		all = append(all, peers.Set{Tenant: name, Value: value})
		t.changed, t.fresh = false, now
		t.tellAt = now.Add(tellEvery + time.Duration(len(value))*time.Second/tellSpeed)
	}
	return all
}

// Untold implements peers.Told.
func (s *Sessions) Untold(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(tenant).changed = true
}

// encode writes version, the earliest second, and of each session its 8 bytes and the seconds after that times 2, plus 1 if it has ended.
func (t *sessions) encode() []byte {
	if len(t.own)+len(t.ended) == 0 {
		return nil
	}
	base := int64(1<<62 - 1)
	for _, of := range []times{t.own, t.ended} {
		for _, at := range of {
			base = min(base, at)
		}
	}
	b := binary.AppendUvarint([]byte{version}, uint64(base))
	for ended, of := range []times{t.own, t.ended} {
		for id, at := range of {
			b = binary.AppendUvarint(binary.BigEndian.AppendUint64(b, uint64(id)), uint64(at-base)<<1|uint64(ended))
		}
	}
	return b
}

var errSet = errors.New("not a set of active sessions")

// decode reads what encode wrote.
func decode(b []byte) (active, ended times, err error) {
	if len(b) == 0 || b[0] != version {
		return nil, nil, errSet
	}
	base, n := binary.Uvarint(b[1:])
	if n <= 0 || base > 1<<40 {
		return nil, nil, errSet
	}
	active, ended = times{}, times{}
	for b = b[1+n:]; len(b) > 0; b = b[n:] {
		if len(b) < 9 || len(active) > Most || len(ended) > Most {
			return nil, nil, errSet
		}
		id := ID(binary.BigEndian.Uint64(b))
		b = b[8:]
		var v uint64
		if v, n = binary.Uvarint(b); n <= 0 || v > 1<<40 {
			return nil, nil, errSet
		}
		if at := int64(base + v>>1); v&1 == 1 {
			ended[id] = at
		} else {
			active[id] = at
		}
	}
	return active, ended, nil
}

// Heard implements peers.Told. Another gateway's clock is believed no further than this one's.
func (s *Sessions) Heard(now time.Time, set peers.Set) error {
	active, ended, err := times{}, times{}, error(nil)
	if set.Value != nil {
		if active, ended, err = decode(set.Value); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if set.Value == nil && s.by[set.Tenant] == nil {
		return nil
	}
	t, second := s.of(set.Tenant), now.Unix()
	was := t.told[set.Gateway]
	if was == nil {
		was = &told{times: times{}}
		t.told[set.Gateway] = was
	}
	was.at = now
	for id := range was.times {
		if _, still := active[id]; !still {
			t.remove(was.times, id)
		}
	}
	old := second - int64(Silence/time.Second)
	for id, at := range ended {
		if at = min(at, second); at < old {
			continue
		}
		if len(t.over) < Most {
			t.over[id] = max(t.over[id], at)
		}
		if seen, ok := t.own[id]; ok && seen <= at {
			s.drop(t, id)
			t.changed = true
		}
		for _, told := range t.told {
			if seen, ok := told.times[id]; ok && seen <= at {
				t.remove(told.times, id)
			}
		}
	}
	for id, at := range active {
		if at = min(at, second); at < old || at <= t.ended[id] || at <= t.over[id] {
			t.remove(was.times, id)
		} else {
			t.add(was.times, id, at)
		}
	}
	if set.Value == nil {
		delete(t.told, set.Gateway)
	}
	return nil
}

// Are implements peers.Told.
func (s *Sessions) Are(there map[[2]string]bool, self string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.by {
		t.changed = t.changed || len(t.own) > 0 && !there[[2]string{name, self}]
		for gateway, told := range t.told {
			if there[[2]string{name, gateway}] {
				continue
			}
			for id := range told.times {
				t.remove(told.times, id)
			}
			delete(t.told, gateway)
		}
	}
}
