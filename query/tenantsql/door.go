package tenantsql

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/table"
)

// Config says what a Door is for. Authorize and HTTP are required, and either WebSecret or Open, Password, Slots and Schema.
type Config struct {
	// Authorize reports whether a secret opens what a tenant has; see Denied for what an error may be.
	Authorize func(ctx context.Context, secret, tenant string) error
	// HTTP is the address of ClickHouse's HTTP interface, host:port. TLS is how to speak to it, nil: in the clear.
	HTTP string
	TLS  *tls.Config
	// Open connects to an embedded engine as a user that may do anything; the Door closes the connection. Password is that of the user of a
	// slot, and Slots how many tenants can ask at once.
	Open     func(ctx context.Context) (driver.Conn, error)
	Password func(slot int) string
	Slots    int
	// WebSecret is that of a server: each tenant asks as the user that Users.Make has made for it with WebPassword, and Open, Password, Slots
	// and Schema are not used. "" for an embedded engine.
	WebSecret string
	// AtOnce is how many questions of all tenants ClickHouse works on at once; 0: as many as an embedded engine has processors and memory
	// for. A tenant may have half, on a server at most as many as its user may ask.
	AtOnce   int
	Database string
	Schema   *table.Schema
	Logger   *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Denied is why a secret does not open the door, with the status of the answer.
type Denied struct {
	Status int
	Why    string
}

// Error implements error.
func (d *Denied) Error() string { return d.Why }

const (
	// waiting is how many questions of one tenant may be under way or wait, turnWait how long one waits.
	waiting  = 16
	turnWait = 10 * time.Second
	// maxQuestion is the largest body: a question is at most 256 KiB long, and what drivers send beside it is small.
	maxQuestion = 1 << 20
	// questionTime is how long a question may take with its answer.
	questionTime = 2 * time.Minute
)

// Door is the HTTP handler. Make it with New. It is safe for concurrent use, and holds nothing that must be closed.
type Door struct {
	cfg    Config
	lender lender
	turns  *turns
	minute *minutes // nil: of a server, where the quota of the tenant's user holds
	client *http.Client
	asked  *prometheus.CounterVec
	quiet  rate.Sometimes // of what the operator must mend
}

// New returns a door.
func New(cfg Config) *Door {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Door{cfg: cfg, lender: ownUsers{cfg.WebSecret}, quiet: rate.Sometimes{Interval: 10 * time.Second},
		client: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second,
			TLSClientConfig: cfg.TLS},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "sql", Name: "questions_total",
			Help: "Questions of tenants, by the status of the answer."}, []string{"status"}),
	}
	all := cmp.Or(cfg.AtOnce, min(max(4, runtime.NumCPU()), engine.SlotQuestions))
	own := min(max(1, all/2), DefaultBounds().AtOnce)
	if cfg.WebSecret == "" {
		d.lender, d.minute = slotLender{newSlots(cfg), cfg.Password}, newMinutes(DefaultBounds())
	}
	d.turns = newTurns(all, own)
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(d.asked, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "warpline", Subsystem: "sql",
			Name: "slots_lent", Help: "Tenants that have a slot for their questions."}, func() float64 { return float64(d.lender.lent()) }))
		for _, status := range statuses {
			d.asked.WithLabelValues(strconv.Itoa(status))
		}
	}
	return d
}

// ServeHTTP answers one question. The path must begin with the door's own, which is cut off by the caller.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff") // a tenant writes its answers as it likes: no browser takes one for a page
	switch {
	case r.URL.Path == "/ping":
		d.say(w, http.StatusOK, "", "Ok.\n")
	case r.URL.Path != "" && r.URL.Path != "/":
		d.fail(w, http.StatusNotFound, codeUnknown, "there are only / and /ping here")
	case r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		d.fail(w, http.StatusMethodNotAllowed, codeUnknown, "ask with GET or POST")
	default:
		d.question(w, r)
	}
}

func (d *Door) question(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), questionTime)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(questionTime)) // where that is possible
	who, secret := credentials(r)
	if tenant.CheckName(who) != nil || secret == "" {
		d.denied(w, &Denied{http.StatusUnauthorized, howToAsk})
		return
	}
	if err := d.cfg.Authorize(ctx, secret, who); err != nil {
		d.denied(w, err)
		return
	}
	var over *usedUp
	if d.minute != nil && errors.As(d.minute.ask(who, time.Now()), &over) {
		w.Header().Set("Retry-After", strconv.Itoa(int(over.in/time.Second)))
		d.fail(w, http.StatusTooManyRequests, codeQuota, over.Error())
		return
	}
	end, err := d.turns.take(ctx, who)
	if r.Context().Err() != nil {
		if err == nil {
			end()
		}
		d.gone()
		return
	}
	if err != nil {
		w.Header().Set("Retry-After", "5")
		d.fail(w, http.StatusTooManyRequests, codeTooMany, err.Error())
		return
	}
	defer end()
	as, give, err := d.lender.take(ctx, who)
	if err != nil {
		if !errors.Is(err, errBusy) {
			d.quiet.Do(func() { d.cfg.Logger.Error("a tenant cannot ask", "tenant", who, "err", err) })
			err = errors.New("ClickHouse cannot answer now: ask again in a few seconds")
		}
		w.Header().Set("Retry-After", "5")
		d.fail(w, http.StatusServiceUnavailable, codeTooMany, err.Error())
		return
	}
	defer give()
	if d.minute != nil {
		defer func(began time.Time) { d.minute.worked(who, time.Since(began), time.Now()) }(time.Now())
	}
	d.ask(ctx, w, r, who, as)
}

// ask hands the question of a tenant to ClickHouse, as somebody who sees that tenant's rows alone.
func (d *Door) ask(ctx context.Context, w http.ResponseWriter, r *http.Request, who string, as login) {
	asked := d.parameters(r.URL.Query(), as)
	native := isNative(asked.Get("compress"))
	to := url.URL{Scheme: "http", Host: d.cfg.HTTP, Path: "/", RawQuery: asked.Encode()}
	if d.cfg.TLS != nil {
		to.Scheme = "https"
	}
	var body io.Reader = http.NoBody
	if r.Method == http.MethodPost {
		body = http.MaxBytesReader(w, r.Body, maxQuestion)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, to.String(), body)
	if err != nil {
		d.fail(w, http.StatusBadRequest, codeUnknown, "the question cannot be passed on: "+err.Error())
		return
	}
	for _, name := range passedOn {
		if v := r.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	if in := acceptable(r.Header.Get("Accept-Encoding"), native); in != "" {
		req.Header.Set("Accept-Encoding", in)
	}
	if db := r.Header.Get("X-ClickHouse-Database"); db != "" {
		req.Header.Set("X-ClickHouse-Database", d.database(db, as))
	}
	req.SetBasicAuth(as.user, as.password)
	res, err := d.client.Do(req)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		d.fail(w, http.StatusRequestEntityTooLarge, codeUnknown, "a question may have 1 MiB with all that comes with it")
		return
	case r.Context().Err() != nil:
		d.gone()
		return
	case err != nil:
		d.quiet.Do(func() { d.cfg.Logger.Warn("ClickHouse does not answer a tenant", "tenant", who, "err", err) })
		w.Header().Set("Retry-After", "5")
		d.fail(w, http.StatusServiceUnavailable, codeTooMany, "ClickHouse does not answer: ask again in a few seconds")
		return
	}
	defer res.Body.Close()
	if res.Header.Get("X-ClickHouse-Exception-Code") == strconv.Itoa(codeAuthentication) {
		d.quiet.Do(func() {
			d.cfg.Logger.Error("ClickHouse does not let a tenant's user in: make it with `warpline tenant sql-user TENANT --web-secret-file "+
				"FILE`, with the secret that this process has", "tenant", who, "user", as.user)
		})
		w.Header().Set("Retry-After", "60")
		d.fail(w, http.StatusServiceUnavailable, codeAuthentication, "tenant "+who+" cannot ask here yet: the operator makes it a user with "+
			"`warpline tenant sql-user`")
		return
	}
	d.answer(w, res, native)
}

// gone counts a question whose client did not wait for the answer. ClickHouse ends it.
func (d *Door) gone() { d.asked.WithLabelValues(statusLabel(statusGone)).Inc() }

// answer passes on what ClickHouse says, with the headers that clients need.
func (d *Door) answer(w http.ResponseWriter, res *http.Response, native bool) {
	for _, name := range passedBack {
		if v := res.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	if code, err := strconv.Atoi(res.Header.Get("X-ClickHouse-Exception-Code")); err == nil && res.StatusCode != http.StatusOK {
		d.refuse(w, res, code, native)
		return
	}
	d.asked.WithLabelValues(statusLabel(res.StatusCode)).Inc()
	w.WriteHeader(res.StatusCode)
	passOn(w, res.Body)
}

// passOn copies an answer as it comes.
func passOn(w http.ResponseWriter, body io.Reader) {
	flush := http.NewResponseController(w)
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			_ = flush.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a half answer must not look whole
		}
	}
}

// credentials are the tenant and the key of a request, in the ways that ClickHouse takes them.
func credentials(r *http.Request) (who, secret string) {
	if user := r.Header.Get("X-ClickHouse-User"); user != "" {
		return user, r.Header.Get("X-ClickHouse-Key")
	}
	if user, password, ok := r.BasicAuth(); ok {
		return user, strings.TrimSpace(password)
	}
	q := r.URL.Query()
	return q.Get("user"), strings.TrimSpace(q.Get("password"))
}
