package ingest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/proto/varint"
)

// A client may ask what became of its uploads. It sends a name of its choice in the header Warpline-Upload, and the answer has a receipt in
// the same header: the name, and behind it, sealed, where in INGEST the parts are. A receipt that is sent with the next upload comes back
// as a receipt of both; several, divided by commas, become one. So a client that sends a million uploads asks one question at the end, and
// the gateway stores nothing for it. GET /api/v1/uploads/{receipt} is answered by the partitions' owners, see verdict.go.

// headerUpload carries a name or receipts with an upload, and a receipt with the answer. headerUploadAge is how many seconds ago a client
// first sent an upload whose answer it did not get: what was stored since then is not a repeat but that first try.
const (
	headerUpload    = "Warpline-Upload"
	headerUploadAge = "Warpline-Upload-Age"
)

const (
	maxUploadName     = 64
	maxReceipts       = 64       // that become one
	maxReceiptBytes   = 24 << 10 // of what is sent in the header or the path
	maxReceiptRanges  = 512      // partitions of one receipt
	receiptVersion    = 1
	receiptIncomplete = 1 // flag: parts are missing in it
)

// seqRange is where in one partition the parts of uploads are.
type seqRange struct {
	parts       uint64
	first, last uint64 // INGEST sequences
}

// asked is what an upload adds to its receipt. It is nil when the client does not ask; its methods may be called all the same.
type asked struct {
	name       string // the client's
	id         string // under which workers add up; it does not give away the name or the key
	ranges     map[int]seqRange
	incomplete bool   // what became of some parts cannot be answered
	repeated   uint64 // events that were stored before, and known at the door
	refused    uint64 // of them, those that were refused then
	tried      int64  // when it was first sent, seconds since the epoch; 0: now
}

// asks reads the header. It never refuses an upload: a header that makes no sense is ignored.
func (g *Gateway) asks(r *http.Request, m *meter) *asked {
	text := strings.TrimSpace(r.Header.Get(headerUpload))
	if text == "" {
		return nil
	}
	key, _ := m.current()
	name, _, _ := strings.Cut(text, ".")
	name, _, _ = strings.Cut(name, ",")
	if !isUploadName(name) {
		return nil
	}
	a := newAsked(&key, name)
	if text != name {
		before, err := g.openReceipts(r.Context(), &key, text)
		if err != nil {
			a.incomplete = true
		} else {
			a = before
		}
	}
	if age, err := strconv.ParseUint(r.Header.Get(headerUploadAge), 10, 20); err == nil {
		a.tried = time.Now().Unix() - int64(age) - 1
	}
	return a
}

func newAsked(key *tenant.Key, name string) *asked {
	sum := sha256.Sum256([]byte(binding(key, name)))
	return &asked{name: name, id: hex.EncodeToString(sum[:16]), ranges: map[int]seqRange{}}
}

// binding ties a receipt to its key: no other key, of this tenant or another, can ask with it.
func binding(key *tenant.Key, name string) string {
	return fmt.Sprintf("%s\x00%s\x00%d\x00%s", key.Tenant, key.ID, key.Created.UnixNano(), name)
}

// isUploadName reports whether s may be a name.
func isUploadName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) <= maxUploadName
}

// part takes note of a part that JetStream has stored at seq.
func (a *asked) part(partition int, seq uint64) {
	if a == nil || seq == 0 {
		return
	}
	a.add(partition, seqRange{1, seq, seq})
}

// waits makes the question wait until the partition is folded up to seq: parts of an earlier try of the upload may be there.
func (a *asked) waits(partition int, seq uint64) {
	if a == nil || seq == 0 {
		return
	}
	a.add(partition, seqRange{0, 0, seq})
}

func (a *asked) add(partition int, s seqRange) {
	have, ok := a.ranges[partition]
	if !ok && len(a.ranges) >= maxReceiptRanges {
		a.incomplete = true
		return
	}
	have.parts += s.parts
	if s.parts > 0 && (have.first == 0 || s.first < have.first) {
		have.first = s.first
	}
	have.last = max(have.last, s.last)
	a.ranges[partition] = have
}

// repeat takes note of an upload that the gateway recognised. It may have been settled in an earlier try whose answer the client did not
// get, and is not a repeat then.
func (a *asked) repeat(w *window) {
	if a == nil || a.tried > 0 && w.at >= a.tried {
		return
	}
	a.repeated += w.accepted + w.rejected
	a.refused += w.rejected
}

// known takes note of events of which nothing waits in INGEST, as their source found them stored.
func (a *asked) known(events uint64) {
	if a != nil {
		a.repeated += events
	}
}

// mayWait reports whether parts of an upload that was recognised may still wait in INGEST to be folded.
func (a *asked) mayWait(w *window) bool {
	return a != nil && w.at > 0 && time.Since(time.Unix(w.at, 0)) < doubtedFor
}

// merge adds another receipt of the same name.
func (a *asked) merge(b *asked) {
	for partition, s := range b.ranges {
		a.add(partition, s)
	}
	a.incomplete = a.incomplete || b.incomplete
	a.repeated += b.repeated
	a.refused += b.refused
}

// appendTo encodes what is sealed.
func (a *asked) appendTo(dst []byte) []byte {
	flags := byte(0)
	if a.incomplete {
		flags |= receiptIncomplete
	}
	dst = append(dst, receiptVersion, flags)
	dst = binary.AppendUvarint(dst, a.repeated)
	dst = binary.AppendUvarint(dst, a.refused)
	partitions := make([]int, 0, len(a.ranges))
	for p := range a.ranges {
		partitions = append(partitions, p)
	}
	slices.Sort(partitions)
	dst = binary.AppendUvarint(dst, uint64(len(partitions)))
	for _, p := range partitions {
		s := a.ranges[p]
		for _, n := range [...]uint64{uint64(p), s.parts, s.first, s.last} {
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return dst
}

var errReceipt = errors.New("not a receipt of this key")

// parse reads what appendTo wrote. Only sealed bytes come here; counts are checked all the same before anything is allocated.
func (a *asked) parse(src []byte, partitions int) error {
	if len(src) < 2 || src[0] != receiptVersion {
		return errReceipt
	}
	a.incomplete = src[1]&receiptIncomplete != 0
	d := varint.Reader{Rest: src[2:]}
	a.repeated, a.refused = d.Uint(), d.Uint()
	n := d.Count(4)
	if n > maxReceiptRanges {
		return errReceipt
	}
	for range n {
		p := d.Uint()
		s := seqRange{d.Uint(), d.Uint(), d.Uint()}
		if d.Bad || p >= uint64(partitions) {
			return errReceipt
		}
		a.ranges[int(p)] = s
	}
	if !d.Done() {
		return errReceipt
	}
	return nil
}

// answers sets the header of the answer. Where the receipt cannot be sealed it says "unknown", which no receipt can be.
func (g *Gateway) answers(ctx context.Context, w http.ResponseWriter, m *meter, a *asked) {
	if a == nil {
		return
	}
	key, _ := m.current()
	receipt, err := g.sealReceipt(ctx, &key, a)
	if err != nil {
		receipt = "unknown"
		if ok, _ := g.quiet.say("seal_receipt", time.Now()); ok {
			g.cfg.Logger.Warn("an upload was taken, but its receipt cannot be made: its sender cannot ask what becomes of it", "tenant", key.Tenant,
				"err", err)
		}
	}
	w.Header().Set(headerUpload, receipt)
}

func (g *Gateway) sealReceipt(ctx context.Context, key *tenant.Key, a *asked) (string, error) {
	sealer, err := g.seal.get(ctx, g.streams.Marks)
	if err != nil {
		return "", err
	}
	sealed := sealer.Seal(nil, nil, a.appendTo(nil), []byte(binding(key, a.name)))
	return a.name + "." + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// openReceipts opens the receipts in text, which are divided by commas and of one name. A name alone is a receipt of nothing.
func (g *Gateway) openReceipts(ctx context.Context, key *tenant.Key, text string) (*asked, error) {
	if len(text) > maxReceiptBytes || strings.Count(text, ",") >= maxReceipts {
		return nil, errReceipt
	}
	var all *asked
	for one := range strings.SplitSeq(text, ",") {
		name, sealed, found := strings.Cut(strings.TrimSpace(one), ".")
		if !isUploadName(name) || all != nil && all.name != name {
			return nil, errReceipt
		}
		a := newAsked(key, name)
		if found {
			sealer, err := g.seal.get(ctx, g.streams.Marks)
			if err != nil {
				return nil, err
			}
			raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
			if err != nil {
				return nil, errReceipt
			}
			plain, err := sealer.Open(nil, nil, raw, []byte(binding(key, name)))
			if err != nil || a.parse(plain, g.streams.Partitions) != nil {
				return nil, errReceipt
			}
		}
		if all == nil {
			all = a
		} else {
			all.merge(a)
		}
	}
	return all, nil
}

// sealer holds the secret with which all gateways of a service seal receipts: clients need not know where in INGEST something is. The zero
// value is ready to use. It is safe for concurrent use.
type sealer struct {
	mu   sync.Mutex
	aead cipher.AEAD
}

// sealKey is the secret's key in the marks bucket: 32 random bytes, written by the first gateway that needs it. Only receipts depend on it,
// and they live for minutes.
const sealKey = "receipts.secret"

func (s *sealer) get(ctx context.Context, kv jetstream.KeyValue) (cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aead != nil {
		return s.aead, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	e, err := kv.Get(ctx, sealKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		secret := make([]byte, 32)
		rand.Read(secret) // never fails since Go 1.24
		if _, err := kv.Create(ctx, sealKey, secret); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
			return nil, fmt.Errorf("secret of receipts: %w", err)
		}
		e, err = kv.Get(ctx, sealKey)
	}
	if err != nil {
		return nil, fmt.Errorf("secret of receipts: %w", err)
	}
	if len(e.Value()) != 32 {
		return nil, fmt.Errorf("secret of receipts: %d bytes under %s: remove it, a new one is made", len(e.Value()), sealKey)
	}
	block, err := aes.NewCipher(e.Value())
	if err != nil {
		return nil, fmt.Errorf("secret of receipts: %w", err)
	}
	s.aead, err = cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("secret of receipts: %w", err)
	}
	return s.aead, nil
}
